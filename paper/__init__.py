"""The paper's reproduction: its regimes, its baselines, its comparison, and a demonstration.

The package is a user of `spdelaw`: it imports no module and no name that starts with an
underscore. Names that it needs beyond ``sl.*`` are listed in `BEYOND_PUBLIC`, and a test keeps
the list complete.
"""

#: Names by the module or sub-package that defines them.
BEYOND_PUBLIC = {
    "spdelaw.amortized": ("amortized_posterior", "amortized_reconstruct", "sample_decoder"),
    "spdelaw.amortized.encoder": ("N_HEAD", "N_STATE", "OdeRnn"),
    "spdelaw.amortized.structured": ("make_config",),
    "spdelaw.amortized.neural": ("TorchRun",),
    "spdelaw.amortized.training": ("Report", "read_checkpoint", "reporter", "stream", "train"),
    "spdelaw.chaos": ("CosineBasis", "HaarBasis", "expand", "propagate"),
    "spdelaw.checks": ("one_of", "whole"),
    "spdelaw.cli.entry": ("run",),
    "spdelaw.cli.options": ("OutFolder", "PositiveInt"),
    "spdelaw.cli.output": ("Output",),
    "spdelaw.cli.shell": ("load_command", "make_app"),
    "spdelaw.data.io.safe_files": ("recover_directory", "replace_directory", "replace_file"),
    "spdelaw.data.summary": ("fingerprint",),
    "spdelaw.domains": ("from_dict",),
    "spdelaw.evaluation": ("decoder_floor", "gaussian_crps", "law_distance"),
    "spdelaw.evaluation.tasks": ("TierScore", "coverage", "mean_predictor", "parameter_errors"),
    "spdelaw.law": ("chaos_posterior", "relative_l2", "rmse"),
    "spdelaw.report.figures.moments": ("spatial_weights",),
    "spdelaw.report.figures.draw": ("COLUMN", "GREY", "figure_of", "new_figure", "style"),
    "spdelaw.report.page": ("render",),
    "spdelaw.report.plots": (
        *("Figure", "Section", "Table", "axis", "layout", "log_axis", "packed", "panel_title"),
    ),
    "spdelaw.report.summary": ("Answer",),
    "spdelaw.statespace": ("StateSpace",),
}
