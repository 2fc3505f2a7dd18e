"""The schema as the page's types, in TypeScript."""

from __future__ import annotations

import inspect
import types
import typing
from typing import Any, Final, Literal, NotRequired

from evals.viewer.schema import VERSION, episode, export, live, notes, report, results, runs, study

_MODULES: Final = (runs, live, results, study, episode, notes, export, report)
_ALIASES: Final = {"Facts": episode.Facts, "Values": runs.Values}
_PLAIN: Final = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null", Any: "unknown"}


def typescript() -> str:
    """All types of the schema, in the order in which they are declared."""
    lines = [
        "// Made by `python -m evals.viewer.schema`; a test compares it. All of it is data: texts are never markup.",
        "",
        f"export const VERSION = {VERSION};",
        "",
        *(f"export type {name} = {_type(alias)};" for name, alias in _ALIASES.items()),
    ]
    for module in _MODULES:
        for value in vars(module).values():
            if typing.is_typeddict(value) and value.__module__ == module.__name__:
                lines += _interface(value)
    return "\n".join([*lines, ""])


def _interface(declared: Any) -> list[str]:
    """The lines of one type."""
    lines = ["", f"/** {inspect.cleandoc(declared.__doc__ or '')} */", f"export interface {declared.__name__} {{"]
    for name, hint in typing.get_type_hints(declared, include_extras=True).items():
        if typing.get_origin(hint) is NotRequired:
            lines.append(f"  {name}?: {_type(typing.get_args(hint)[0])};")
        else:
            lines.append(f"  {name}: {_type(hint)};")
    return [*lines, "}"]


def _type(hint: Any) -> str:
    """A type within an interface."""
    if typing.is_typeddict(hint):
        return str(hint.__name__)
    origin = typing.get_origin(hint)
    if origin is None:
        return _PLAIN[hint]
    inner = typing.get_args(hint)
    if origin is Literal:
        return " | ".join(f'"{each}"' for each in inner)
    if origin is dict:
        return f"Record<string, {_type(inner[1])}>"
    if origin is list:
        item = _type(inner[0])
        is_union = " | " in item
        return f"({item})[]" if is_union else f"{item}[]"
    assert origin in (typing.Union, types.UnionType), hint
    return " | ".join(map(_type, inner))
