"""Constants and defaults that the modules of a package state, in words that no hash seed changes."""

import ast
import dataclasses
import datetime
import importlib
import inspect
import pkgutil
import re
import types
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Literal, get_origin

import pyarrow as pa

from tests.golden import digest

LONG = 400
"""Characters of a value above which a digest stands for it."""


def modules_of(package, left_out=()):
    """All modules of a package but those that run when imported, or whose name has one of the parts left out."""
    found = [each.name for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return [
        importlib.import_module(name)
        for name in found
        if not name.endswith("__main__") and not any(part in name for part in left_out)
    ]


def written(value) -> str:
    """A value in a form that no hash seed changes; empty where it has none."""
    if isinstance(value, re.Pattern):
        return written([value.pattern, value.flags])
    if isinstance(value, set | frozenset):
        inner = sorted(map(written, value))
        return f"{{{', '.join(inner)}}}" if all(inner) else ""
    if isinstance(value, Mapping):
        inner = [(written(name), written(each)) for name, each in value.items()]
        return f"{{{', '.join(map(': '.join, inner))}}}" if all(map(all, inner)) else ""
    if isinstance(value, list | tuple):
        inner = [*map(written, value)]
        return f"({', '.join(inner)})" if all(inner) else ""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [(each.name, written(getattr(value, each.name))) for each in dataclasses.fields(value)]
        return f"{type(value).__name__}({', '.join(map('='.join, fields))})" if all(map(all, fields)) else ""
    if inspect.isclass(value) or inspect.isfunction(value):
        return value.__qualname__
    if isinstance(value, Path | types.ModuleType):
        return value.name if isinstance(value, Path) else value.__name__
    if isinstance(value, pa.DataType | pa.Schema | Decimal | range | datetime.date) or get_origin(value) is Literal:
        return re.sub(r"\s+", " ", str(value))
    return repr(value) if value is None or isinstance(value, bool | int | float | str | bytes) else ""


def defaults_of(name, function):
    """Parameters that have a default, as far as it can be written."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    told = [f"{each.name}={written(each.default)}" for each in parameters if each.default is not each.empty]
    told = [each for each in told if not each.endswith("=")]
    if told:
        yield f"{name}({', '.join(told)})"


def constants_of(module):
    """Names of the constants that a module gives a value: none that it imports, is filled later or drawn by chance."""
    for statement in ast.parse(inspect.getsource(module)).body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            differs = not getattr(statement.value, "elts", getattr(statement.value, "keys", True))
            differs |= "secrets." in ast.unparse(statement.value)
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            yield from (name for name in names if re.fullmatch(r"_?[A-Z]\w+", name) and not differs)


def told_of(module):
    """Constants, defaults of functions and of classes, and what classes state."""
    constants = {*constants_of(module)}
    for name, value in vars(module).items():
        own = getattr(value, "__module__", module.__name__) == module.__name__
        if name in constants:
            yield f"{name} = {written(value)}"
        elif own and inspect.isfunction(value):
            yield from defaults_of(name, value)
        elif own and inspect.isclass(value):
            if not getattr(value.__init__, "__module__", "").startswith(("jinja2.", "argparse")):
                yield from defaults_of(name, value)
            for inner, stated in vars(value).items():
                if inspect.isfunction(stated) and not inner.startswith("__"):
                    yield from defaults_of(f"{name}.{inner}", stated)
                elif (
                    not inner.startswith("_") and written(stated) and inner not in getattr(value, "__match_args__", ())
                ):
                    yield f"{name}.{inner} = {written(stated)}"


def stated_in(modules) -> str:
    """What modules state, each under its name."""
    said = []
    for module in modules:
        lines = [line for line in told_of(module) if not line.endswith("= ")]
        said += [f"{module.__name__}:"] if lines else []
        said += [f"  {line if len(line) <= LONG else f'{line[:80]}... {digest(line)}'}" for line in lines]
    return "\n".join(said)
