"""Cut-off replies of a run: counted by player and suite, and warned of where there are many."""

import pyarrow as pa
import pytest

from evals.ledger.run_data import RunData
from evals.summary.cut_off import TOLERATED, CutOff, count_cut_off, cut_off_warnings


def run(*rows):
    """A run of rows (player, suite, cut off)."""
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    player, suite, cut_off = map(list, columns)
    ledger = {"cut_off": pa.array(cut_off, pa.int32()), "suite": pa.array(suite, pa.string())}
    return RunData.of_tables(pa.table({}), pa.table({**ledger, "player": pa.array(player, pa.string())}))


def test_episodes_and_replies_are_counted_apart():
    rows = [("b", "kumo", 3), ("b", "kumo", 0), ("a", "kumo", 1), ("b", "kidgym", 0), ("b", "kumo", 1)]
    counts = count_cut_off(run(*rows))
    assert counts == {
        ("a", "kumo"): CutOff(1, 1, 1),
        ("b", "kidgym"): CutOff(1, 0, 0),
        ("b", "kumo"): CutOff(3, 2, 4),
    }
    assert list(counts) == list(count_cut_off(run(*reversed(rows)))), "whatever the order of the ledger"
    assert count_cut_off(run()) == {}


@pytest.mark.parametrize(("affected", "warned"), [(0, False), (2, False), (3, True)])
def test_a_warning_comes_above_the_tolerated_share(affected, warned):
    assert TOLERATED == 0.02
    warnings = cut_off_warnings({("m", "kumo"): CutOff(100, affected, 7 * affected), ("n", "kumo"): CutOff(5, 0, 0)})
    assert len(warnings) == warned
    if warned:
        assert all(word in warnings[0] for word in ("m", "kumo", "3 of 100", "3.0%", "21", "max_tokens"))
