"""Constants and defaults of the cluster, on record in ``tests/golden``: a number that changes by mistake shows."""

import importlib
import inspect
import pkgutil
import re

import pytest

import cluster
from tests.golden import check_golden, digest

HOSTING = ("engines", "models", "doctor", "hosted", "checkpoints", "prefix_cache")
LONG = 400
"""Characters of a value above which a digest stands for it."""


def written(value) -> str:
    """A value in a form that no hash seed changes; empty where it has none."""
    if isinstance(value, re.Pattern):
        return written([value.pattern, value.flags])
    if isinstance(value, set | frozenset):
        inner = sorted(map(written, value))
        return f"{{{', '.join(inner)}}}" if all(inner) else ""
    if isinstance(value, dict):
        inner = [(written(name), written(each)) for name, each in value.items()]
        return f"{{{', '.join(map(': '.join, inner))}}}" if all(map(all, inner)) else ""
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        inner = [*map(written, value)]
        return f"({', '.join(inner)})" if all(inner) else ""
    return repr(value) if value is None or isinstance(value, bool | int | float | str) else ""


MODULES = [
    importlib.import_module(found.name)
    for found in pkgutil.walk_packages(cluster.__path__, "cluster.")
    if "torch_compat" not in found.name and not found.name.endswith("__main__")
]


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


def told_of(module):
    """Constants, defaults of functions and of classes, and what classes state."""
    for name, value in vars(module).items():
        own = getattr(value, "__module__", module.__name__) == module.__name__
        if re.fullmatch(r"_?[A-Z][A-Z0-9_]+", name) and not inspect.isclass(value) and value != {}:
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


@pytest.mark.parametrize(("name", "hosting"), [("engines_defaults", True), ("cluster_defaults", False)])
def test_constants_and_defaults_are_on_record(name, hosting):
    said = []
    for module in MODULES:
        if (module.__name__.split(".")[1] in HOSTING) is not hosting:
            continue
        lines = [line for line in told_of(module) if not line.endswith("= ")]
        said += [f"{module.__name__}:"] if lines else []
        said += [f"  {line if len(line) <= LONG else f'{line[:80]}... {digest(line)}'}" for line in lines]
    check_golden(name, "\n".join(said))
