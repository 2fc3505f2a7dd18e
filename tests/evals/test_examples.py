"""The examples in docstrings say what really happens."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for package in ("cluster", "envs", "evals")
    for path in (ROOT / package).rglob("*.py")
    if "    >>> " in path.read_text(encoding="utf-8")
)


def test_the_contract_files_have_examples():
    contract = {"evals.types", "evals.conversation", "evals.tables", "evals.figures", "evals.view"}
    assert contract <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_hold(name):
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert found.attempted and not found.failed
