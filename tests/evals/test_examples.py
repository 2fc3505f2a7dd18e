"""The examples in docstrings say what really happens."""

import doctest
import importlib

import pytest

MODULES = (
    *("evals.types", "evals.conversation", "evals.tables", "evals.figures", "evals.view", "evals.printable"),
    *(
        "evals.chat_json",
        "evals.sessions.session",
        "evals.stats.intervals",
        "evals.report.joint",
        "evals.reference.comparison",
    ),
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_hold(name):
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert found.attempted and not found.failed
