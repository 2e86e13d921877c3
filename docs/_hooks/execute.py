"""Run the code of the documentation, when the site is built and in the tests.

The ``python`` blocks of a page run in order in one namespace and one empty directory, and
so do the lines of its ``sh`` blocks that call ``spdelaw`` or ``python -m paper``. A ``text`` block
right after one of them is what it must print (``...`` stands for anything, white space is not
compared).
Pictures that a page draws into its directory become files of the site beside the page. An
HTML comment ``<!-- not run -->`` on the line before a block leaves that block out.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
# The pages import the folder ``paper`` of the checkout, here and in the processes they start.
CHECKOUT = str(Path(__file__).resolve().parents[2])
if CHECKOUT not in sys.path:
    sys.path.append(CHECKOUT)

NOT_RUN = "<!-- not run -->"
PICTURES = {".png", ".svg"}
FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```\s*$", re.DOTALL | re.MULTILINE)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class PageError(Exception):
    """A block failed, or printed something else than the page shows."""


@dataclass(frozen=True)
class Block:
    """One block of code, the line of the page it starts at, and the output shown for it."""

    language: str
    code: str
    line: int
    output: str | None


def blocks(markdown: str) -> list[Block]:
    """The blocks of a page that run, in order."""
    fences = list(FENCE.finditer(markdown))
    found = []
    for fence, following in zip_longest(fences, fences[1:]):
        before = markdown[: fence.start()].rstrip()
        if fence["language"] not in {"python", "sh"} or before.endswith(NOT_RUN):
            continue
        adjacent = (
            following is not None
            and following["language"] == "text"
            and not markdown[fence.end() : following.start()].strip()
        )
        line = markdown.count("\n", 0, fence.start("code")) + 1
        output = following["code"] if adjacent else None
        found.append(Block(fence["language"], fence["code"], line, output))
    return found


def run_page(markdown: str, name: str, directory: Path) -> None:
    """Run every block of a page in ``directory``.

    Raises:
        PageError: names the page, the line and what went wrong.
    """
    namespace = {"__name__": "__main__"}
    for block in blocks(markdown):
        place = f"{name}:{block.line}"
        with contextlib.chdir(directory):
            if block.language == "python":
                printed = _run_python(block, namespace, place)
            else:
                printed = _run_shell(block, place)
        if block.output is not None:
            checker = doctest.OutputChecker()
            if not checker.check_output(block.output, printed, FLAGS):
                raise PageError(f"{place} shows\n{block.output}\nbut prints\n{printed}")


def _run_python(block: Block, namespace: dict, place: str) -> str:
    printed = io.StringIO()
    code = "\n" * (block.line - 1) + block.code  # so that a traceback names the page's own lines
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(code, place, "exec"), namespace)
    except Exception as error:
        raise PageError(f"{place} fails\n{traceback.format_exc()}") from error
    return printed.getvalue()


def _run_shell(block: Block, place: str) -> str:
    printed = ""
    for line in block.code.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words[:1] != ["spdelaw"] and words[:3] != ["python", "-m", "paper"]:
            continue
        words, target = _redirected(words)
        program = Path(sys.executable).with_name(words[0])
        path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), CHECKOUT)))
        run = subprocess.run(
            [program, *words[1:]],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": path},
        )
        if run.returncode:
            raise PageError(f"{place} '{line}' exits with {run.returncode}\n{run.stderr}")
        if target:
            Path(target).write_text(run.stdout, encoding="utf-8")
        else:
            printed += run.stdout
    return printed


def _redirected(words: list[str]) -> tuple[list[str], str]:
    """The command, and the file after ``>`` where there is one."""
    if ">" not in words:
        return words, ""
    at = words.index(">")
    return words[:at], words[at + 1]


def on_files(files, config):
    """MkDocs event: run every page before any is rendered, and take over its pictures."""
    from mkdocs.exceptions import PluginError
    from mkdocs.structure.files import File

    if os.environ.get("FAST"):  # text and links alone; pictures that pages draw are missing
        return files
    pages = list(files.documentation_pages())
    for number, file in enumerate(pages, 1):
        print(f"running page {number} of {len(pages)}: {file.src_uri}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as directory:
            try:
                run_page(file.content_string, file.src_uri, Path(directory))
            except PageError as error:
                raise PluginError(str(error)) from error
            for picture in sorted(Path(directory).iterdir()):
                if picture.suffix in PICTURES:
                    content = picture.read_bytes()
                    files.append(File.generated(config, picture.name, content=content))
    return files
