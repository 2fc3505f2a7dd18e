"""The reference pages are made from the code, and current."""

import pytest

from cluster.config.compose import SECTIONS
from cluster.config.helps import helps_of
from cluster.config.registry import TYPE, class_of, names_of
from cluster.config.settings import ClusterSettings
from docs.generate import PAGES, ROOT, SUITES, configuration_page, ledger_page
from evals.ledger.columns import COLUMNS, TurnRow


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_current(name):
    written = (ROOT / "docs" / name).read_text()
    assert written == PAGES[name](), "run: python -m docs.generate"


def test_every_column_stands_on_the_page():
    page = ledger_page()
    for name in (*COLUMNS, *TurnRow._fields, "kumo.tests"):
        assert f"| `{name}` |" in page
    assert "| `prompt_tokens` | int64 | tokens |" in page
    assert "| `turns` | list of [turns](#turns) |" in page


def test_every_key_of_the_root_and_of_what_it_names_stands_on_the_page():
    page = configuration_page()
    for name in set(SECTIONS) - {"suite", "model", "cluster", "tracker", "stop"}:
        assert f"| `{name}` |" in page
    for name in ("suite.repeats", "suite.subtask", "model.engine.tensor_parallel_size", "cluster.commit_seconds"):
        assert f"| `{name}` |" in page
    assert "| `model.engine.max_num_seqs` | an integer, from 1 up | `64` | no |" in page
    assert "`model.engine.sampling`" not in page and "`model.engine.answer`" not in page


def test_keys_are_described_where_their_classes_do():
    kumo = helps_of(class_of("suite", {TYPE: "kumo"}))
    assert kumo["repeats"] == "Runs of each task."
    assert helps_of(ClusterSettings)["address"].startswith("Of a Ray cluster")
    assert set(names_of("suite")) >= set(SUITES)
