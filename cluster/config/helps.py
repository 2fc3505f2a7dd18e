"""What the keys of a section mean, read from the docstrings of the class that declares them."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from cluster.config.registry import GIVEN
from envs.settings import Setting, settings_of


def settable(cls: Any) -> Mapping[str, Setting]:
    """The arguments of a constructor that a configuration can set."""
    found = {}
    for name, setting in settings_of(cls).items():
        is_given = name in (*GIVEN, "extra")
        is_function = "Callable" in str(setting.kind)
        if not is_given and not is_function:
            found[name] = setting
    return found


def helps_of(cls: type) -> dict[str, str]:
    """Descriptions of a constructor's arguments, base classes included.

    They stand in docstrings below the fields, in ``Attributes`` of the class, or in ``Args`` of its ``__init__``.
    """
    helps: dict[str, str] = {}
    for each in reversed(cls.__mro__[:-1]):
        helps |= _below_fields(each) | _documented(each) | _documented(vars(each).get("__init__"))
    return helps


def _below_fields(cls: type) -> dict[str, str]:
    """The docstrings that stand below the fields of a class; none where there is no source."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    except (OSError, TypeError):
        return {}
    if not isinstance(body, ast.ClassDef):
        return {}
    found = {}
    for field, below in itertools.pairwise(body.body):
        match field, below:
            case ast.AnnAssign(target=target), ast.Expr(value=ast.Constant(value=str(text))):
                found[ast.unparse(target)] = _sentence(text)
    return found


def _documented(documented: object) -> dict[str, str]:
    """The entries of a docstring's ``Args`` or ``Attributes``."""
    found = re.search(r"^(?:Args|Attributes):\n((?:[ ]+.*\n?|\n)+)", inspect.getdoc(documented) or "", re.MULTILINE)
    entries = re.split(r"^ {4}(\w+): ", found[1] if found else "", flags=re.MULTILINE)[1:]
    return {name: _sentence(text) for name, text in zip(entries[::2], entries[1::2], strict=True)}


def _sentence(text: str) -> str:
    words = " ".join(text.split()).replace("``", "`")
    return words[:1].upper() + words[1:]
