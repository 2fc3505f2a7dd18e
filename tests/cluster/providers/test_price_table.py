"""A line of ``prices.yaml`` that is wrong is named when the table is read, and never counts as a price of 0."""

import pytest

from cluster.engines.providers import prices
from cluster.engines.providers.price_table import read_price_table
from envs.files import FileError

TABLE = """\
date: 2026-07-24
source: a page
providers:
  openai:
    batch: 0.5
    models:
      gpt: {prompt: 2.5, completion: 10, cache_read: 1.25, long: {above: 1000, prompt: 5, completion: 20}}
"""
GPT = "providers.openai.models.gpt"


def test_a_price_table_is_read_in_its_shape(tmp_path):
    path = tmp_path / "prices.yaml"
    path.write_text(TABLE)
    section = read_price_table(path).providers["openai"]
    assert (section.batch, section.models["gpt"].prompt, section.models["gpt"].long.above) == (0.5, 2.5, 1000)


def test_a_dated_name_has_its_own_row_or_that_of_the_name(tmp_path, monkeypatch):
    path = tmp_path / "prices.yaml"
    path.write_text(f"{TABLE}      gpt-2026-05-01: {{prompt: 7, completion: 8}}\n")
    monkeypatch.setattr(prices, "table", lambda: read_price_table(path))
    names = ("gpt", "gpt-2026-05-01", "gpt-2026-05-02", "gpt-20260502", "gpt-2026", "other")
    found = [row and row.prompt for row in (prices.listed("openai", name) for name in names)]
    assert found == [2.5, 7, 2.5, 2.5, None, None]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{prompt: 2.5", "{promt: 2.5", f"{GPT}.prompt: Field required"),
        ("{prompt: 2.5", "{prompt: 2.5, promt: 3", f"{GPT}.promt: Extra inputs are not permitted"),
        ("{prompt: 2.5, ", "{", f"{GPT}.prompt: Field required"),
        ("{prompt: 2.5", '{prompt: "2.5 €"', f"{GPT}.prompt: Input should be a valid number"),
        ("{prompt: 2.5", "{prompt: -2.5", f"{GPT}.prompt: Input should be greater than or equal to 0"),
        ("{prompt: 2.5", "{prompt: .inf", f"{GPT}.prompt: Input should be a finite number"),
        ("prompt: 5, ", "", f"{GPT}.long.prompt: Field required"),
        ("above: 1000", "above: -1", f"{GPT}.long.above: Input should be greater than or equal to 1"),
        ("batch: 0.5", "batch: 5", "providers.openai.batch: Input should be less than or equal to 1"),
        ("2026-07-24", "yesterday", "date: Input should be a valid date"),
        (
            "      gpt:",
            "      gpt: {prompt: 0.001, completion: 10}\n      gpt:",
            "line 8: is not YAML: key 'gpt' occurs twice",
        ),
        (TABLE, "", "the whole file: Input should be"),
    ],
)
def test_a_wrong_line_of_a_price_table_is_refused_by_its_place(tmp_path, old, new, said):
    path = tmp_path / "prices.yaml"
    path.write_text(TABLE.replace(old, new))
    with pytest.raises(FileError) as refused:
        read_price_table(path)
    assert str(path) in str(refused.value) and said in str(refused.value)


def test_a_dated_name_may_have_prices_of_its_own():
    for model, completion in (("gpt-4o-2024-05-13", 15), ("gpt-4o-2024-08-06", 10)):
        row = prices.listed("openai", model)
        assert row is not None and row.completion == completion
