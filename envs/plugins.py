"""Registered names: suites, engines, trackers and pictures by a short stable name, ours and those of others.

A name comes from one of three sources:

- installed packages, raycade among them, through entry points (``[project.entry-points."raycade.suites"]``);
- for commands and pictures, raycade's own tables;
- folders named by the environment variable ``RAYCADE_PLUGINS`` (separated like ``PATH``). A folder holds Python modules
  and a ``plugins.toml`` whose sections are the same groups: ``["raycade.suites"]`` and lines ``toy = "toy_suite:ToySuite"``.

Only registered names can be built from a configuration, so that a configuration never names code.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.metadata
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from types import MappingProxyType
from typing import Any

from envs.files import FileError, absolute_path, read_text, read_toml, shown_files
from envs.suggest import did_you_mean

VARIABLE = "RAYCADE_PLUGINS"
_NAME = re.compile(r"\w[\w.-]*")


def folders() -> list[Path]:
    """The plugin folders, in the order given; they are on the import path afterwards, here and in child processes.

    Raises:
        ValueError: a folder has a module with the name of one that lies elsewhere, ``random.py`` say. Here the other one
            would be imported, but in child processes, whose ``PYTHONPATH`` comes first, that of the folder.
    """
    named = [absolute_path(name, f"{VARIABLE}={name}") for name in _listed_in(VARIABLE)]
    inherited = _listed_in("PYTHONPATH")
    for folder in map(str, named):
        if folder not in sys.path:
            _refuse_taken_names(Path(folder))
            sys.path.append(folder)
        # What child processes import from.
        if folder not in inherited:
            inherited.append(folder)
            os.environ["PYTHONPATH"] = os.pathsep.join(inherited)
    return named


def _listed_in(variable: str) -> list[str]:
    """The folders that an environment variable lists, as ``PATH`` does."""
    return [name for name in os.environ.get(variable, "").split(os.pathsep) if name]


def _refuse_taken_names(folder: Path) -> None:
    for path in (*shown_files(folder, "*.py"), *(package.parent for package in folder.glob("*/__init__.py"))):
        other = PathFinder.find_spec(path.stem)
        if other is not None and other.origin is not None and folder not in Path(other.origin).parents:
            raise ValueError(f"{VARIABLE}: {path} has the name of another module, {other.origin}; rename it")


def registered(group: str, built_in: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """All names of a group with where each comes from (``module:attribute``); nothing is imported.

    Args:
        group: such as ``raycade.suites``.
        built_in: raycade's own names of that group that no entry point registers.

    Raises:
        ValueError: a plugin folder has no readable ``plugins.toml``, or a name is taken twice.
    """
    return dict(_registered(group, tuple(built_in.items()), tuple(map(str, folders()))))


@functools.cache
def _registered(
    group: str, built_in: tuple[tuple[str, str], ...], places: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    sources = list(_installed(group))
    for folder in places:
        for name, value in _listed(Path(folder), group).items():
            sources.append((name, value, folder))
    found = dict(built_in)
    for name, value, source in sources:
        # The same name may come twice, as long as it stands for the same.
        if found.get(name, value) != value:
            raise ValueError(f"{group}: the name {name!r} of {source} is taken already, by {found[name]}")
        found[name] = value
    return tuple(found.items())


def _without_extras(entry: importlib.metadata.EntryPoint) -> str:
    return f"{entry.module}:{entry.attr}" if entry.attr else entry.module


def missing_package(group: str, name: str, error: ModuleNotFoundError) -> str:
    """What to say where a name needs a package that is not installed: which one, and the extra that brings it."""
    extra = _extra(group, name)
    remedy = f": pip install '{extra}'" if extra else ""
    return f"{name} needs the Python package {error.name!r}, which is not installed{remedy}"


def _extra(group: str, name: str) -> str:
    """The extra that brings what an installed name needs, such as ``raycade[kumo]``; empty where there is none."""
    for entry in importlib.metadata.entry_points(group=group, name=name):
        if entry.dist is None:
            continue
        offered = entry.dist.metadata.get_all("Provides-Extra") or []
        # Stated in brackets behind the entry point, else the extra of the same name.
        for extra in (*entry.extras, name):
            if extra in offered:
                return f"{entry.dist.name}[{extra}]"
    return ""


def _installed(group: str) -> Iterator[tuple[str, str, str]]:
    """The entry points of installed packages: name, value, and whose it is."""
    for entry in importlib.metadata.entry_points(group=group):
        package = entry.dist.name if entry.dist else "?"
        yield entry.name, _without_extras(entry), f"the installed package {package}"


def _listed(folder: Path, group: str) -> dict[str, str]:
    """One group of a folder's ``plugins.toml``."""
    path = folder / "plugins.toml"
    try:
        section = read_toml(path).get(group, {})
    except FileError as error:
        raise ValueError(f"{VARIABLE}: {error}") from error
    here = f'{VARIABLE}: {path}: ["{group}"]'
    lines_wanted = ValueError(f'{here} must hold lines like name = "module:Class"')
    if not isinstance(section, dict):
        raise lines_wanted
    if not all(isinstance(value, str) for value in section.values()):
        raise lines_wanted
    for name in section:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{here}: {name!r} is no name: letters, digits, _ - . only")
    return section


def summary(group: str, name: str) -> str:
    """The first line of the docstring of a name's module, which is not imported; empty where there is none."""
    module = registered(group)[name].partition(":")[0]
    package, *rest = module.split(".")
    spec = importlib.util.find_spec(package)
    # Nothing of that name, or a folder without a file of its own.
    if spec is None or spec.origin is None:
        return ""
    path = Path(spec.origin)
    if rest:
        path = path.parent.joinpath(*rest).with_suffix(".py")
    try:
        text = ast.get_docstring(ast.parse(read_text(path))) or ""
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # how the parser refuses, or ends on deep nesting
        return ""
    return text.partition("\n")[0].rpartition("``: ")[2].removesuffix(".").replace("%", "%%")


def load(group: str, name: str, built_in: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Import what a name stands for.

    Raises:
        ValueError: no such name (the message lists those that exist), or its module cannot be imported; a missing
            dependency is named, and the extra that brings it.
    """
    names = registered(group, built_in)
    if name not in names:
        raise ValueError(f"there is no {name!r}; choose from {', '.join(sorted(names))}{did_you_mean(name, names)}")
    module, _, attribute = names[name].partition(":")
    try:
        found = importlib.import_module(module)
        if attribute:
            found = getattr(found, attribute)
        return found
    except ModuleNotFoundError as error:
        raise ValueError(missing_package(group, name, error)) from error
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # what a module of others does while it is imported; SystemExit is none of Exception
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, ImportError | AttributeError):
            reason = str(error)
        raise ValueError(f"{name} ({names[name]}{_file_of(module)}) cannot be imported: {reason}") from error


def _file_of(module: str) -> str:
    """``, in FILE`` for the package that a module lies in; empty where it cannot be found."""
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return ""
    return f", in {spec.origin}" if spec is not None and spec.origin else ""
