"""Signatures and docstrings of functions and classes, read from their source.

The source is parsed, not imported: the help of a command must not wait for NumPy and xarray.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

#: Default of an argument that has none.
REQUIRED = inspect.Parameter.empty
PACKAGE = Path(__file__).resolve().parents[1]


class Field(NamedTuple):
    """An argument of a function or a field of a class, as the source states it.

    Attributes:
        name: of the argument.
        annotation: its text.
        default: value, None where the source does not write it as a plain value, or `REQUIRED`.
        text: its entry in the docstring, empty where there is none.
    """

    name: str
    annotation: str
    default: Any
    text: str


class Signature(NamedTuple):
    """Fields by name, and the docstring."""

    fields: dict[str, Field]
    docstring: str


@functools.cache
def read_signature(path: Path, name: str) -> Signature:
    """Arguments of a function, or the fields of a class.

    Fields that a docstring with entries leaves out are no part of the interface.

    Args:
        path: of the module.
        name: of a function or a class.
    """
    source = path.read_text(encoding="utf-8")
    node = _definition(source, name)
    docstring = ast.get_docstring(node) or ""
    texts = describe_arguments(docstring)
    if isinstance(node, ast.FunctionDef):
        declared = _arguments(node)
    else:
        parents = [_definition(source, ast.unparse(base)) for base in node.bases]
        kinds = [kind for kind in (*parents, node) if kind is not None]
        declared = [entry for kind in kinds for entry in _class_fields(kind)]
        declared = [entry for entry in declared if not texts or entry[0] in texts]
    fields = {
        key: Field(key, ast.unparse(annotation), default, texts.get(key, ""))
        for key, annotation, default in declared
        if annotation is not None
    }
    return Signature(fields, docstring)


def _definition(source: str, name: str) -> Any:
    """Syntax tree of the last class or function of this name; None where there is none.

    Its lines alone are parsed, up to the next one that is not indented: a whole module takes tens
    of milliseconds.
    """
    pattern = rf"^(?:class|def) {re.escape(name)}\b.*\n(?:(?:[ )].*)?\n)*"
    blocks = re.findall(pattern, source, re.M)
    return ast.parse(blocks[-1]).body[0] if blocks else None


def _arguments(node: ast.FunctionDef) -> list[tuple[str, Any, Any]]:
    """Name, annotation and default of each argument."""
    positional = [*node.args.posonlyargs, *node.args.args]
    defaults = [REQUIRED] * (len(positional) - len(node.args.defaults))
    defaults += [_literal(value) for value in node.args.defaults]
    defaults += [REQUIRED if v is None else _literal(v) for v in node.args.kw_defaults]
    arguments = [*positional, *node.args.kwonlyargs]
    return [(a.arg, a.annotation, d) for a, d in zip(arguments, defaults, strict=True)]


def _class_fields(node: ast.ClassDef) -> list[tuple[str, Any, Any]]:
    """The same of annotated fields, and of the keyword arguments of a constructor."""
    fields = [
        (n.target.id, n.annotation, REQUIRED if n.value is None else _literal(n.value))
        for n in node.body
        if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
    ]
    for function in node.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            fields += _arguments(function)
    return fields


def _literal(node: ast.expr) -> Any:
    """Value of a default; None where it is not written as a plain value."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def section(docstring: str, *titles: str) -> str:
    """Indented lines below a title of a docstring; empty where there is none."""
    pattern = f"^(?:{'|'.join(titles)}):\n((?:    .*\n?|\n)*)"
    return "\n".join(textwrap.dedent(text) for text in re.findall(pattern, docstring, re.M))


def describe_arguments(docstring: str) -> dict[str, str]:
    """Texts of the sections "Args", "Attributes" and "Options" of a docstring, by name."""
    entries = re.findall(
        r"^(\w+): (.*(?:\n +.*)*)", section(docstring, "Args", "Attributes", "Options"), re.M
    )
    return {name: " ".join(text.split()) for name, text in entries}


def first_sentence(text: str) -> str:
    """First sentence of a docstring's entry, in the language of the shell."""
    sentence = re.split(r'(?<=\.) (?=[A-Z`"])', text)[0]
    sentence = re.sub(r'(\w+)="(\w+)"', lambda m: f"--{m[1].replace('_', '-')} {m[2]}", sentence)
    sentence = re.sub(r'[`"]', "", sentence)
    return sentence[:1].upper() + sentence[1:]
