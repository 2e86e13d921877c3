"""One-file report: HTML that opens offline."""

from spdelaw.report.html._write import require_report, write_report

__all__ = ["require_report", "write_report"]
