"""The tables and glances of the optimal search are on record: its values say little of bounds that are too loose."""

import collections
import errno
import functools
import math
import os
import random
import re
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from envs.kumo import OptimalSearch, endgame, generate_tasks, kernel, load_domain, tables
from envs.kumo.tables import build
from tests.envs.kumo_games import random_game
from tests.golden import check_golden, digest

GAME = (
    {0b110: 2, 0b011: 4},
    {0b101: 1, 0b111: 1},
    {0b011: 2, 0b110: 1},
    {0b000: 1, 0b110: 1, 0b111: 2},
    {0b111: 1},
    {0b101: 3, 0b111: 3},
)
"""Of three truths: two tests that are alike everywhere, two that are alike on some, one that tells nothing."""


def told(value):
    value = np.asarray(value)
    if value.ndim > 1:
        return f"{value.shape} {digest(' '.join(map(told, value)))}" if value.ndim > 2 else " | ".join(map(told, value))
    return " ".join(f"{each:.6g}" for each in np.atleast_1d(value).tolist())


def test_tables_are_as_on_record():
    said = []
    for valid in (1, 2):
        tables = build(GAME, 3, valid)
        said.append(f"valid: {valid}")
        said += [f"{name}: {told(table)}" for name, table in zip(tables._fields, tables, strict=True)]
        said += [f"ahead after {left:03b}: {told(tables.ahead[:, left])}" for left in range(8)]
        said += [f"spared {place}: {told(tables.spared[:, place])}" for place in range(3)]
    for left in range(8):
        folded = [f"{kernel.fold(tables, left, unused):06b}" for unused in range(64)]
        said.append(f"{left:03b}: {' '.join(folded)}")
    check_golden("kumo_tables", "\n".join(said))


def values(tables):
    """What a game lasts from any state, without tables."""

    @functools.cache
    def value(left, unused):
        survivors = [truth for truth in range(tables.able.size) if left >> truth & 1]
        if len(survivors) <= tables.valid or any(not tables.able[truth] & unused for truth in survivors):
            return 0.0
        return min(value_of(left, unused, action) for action in range(len(tables.keep)) if unused >> action & 1)

    def value_of(left, unused, action):
        after = [left & kept for kept in tables.keep[action].tolist()]
        weights = [kept.bit_count() * many for kept, many in zip(after, tables.number[action].tolist(), strict=True)]
        steps = sum(
            weight * value(kept, unused & ~(1 << action)) for weight, kept in zip(weights, after, strict=True) if weight
        )
        return 1 + steps / max(1, sum(weights))

    return value


@pytest.mark.parametrize("valid", [1, 2])
def test_endgames_last_as_long_as_they_do_and_are_tabled_when_their_rent_is_due(valid):
    rng = random.Random(valid)
    outcomes = [{rng.randint(0, 7) | 1 << rng.randint(0, 2): rng.randint(1, 3) for _ in range(3)} for _ in range(6)]
    tables = build([*outcomes, outcomes[0], {0b111: 1}, {0b101: 1, 0b011: 2}], 3, valid)
    games = endgame.new_endgames(tables)
    kinds = collections.Counter(tables.first[7, action] for action in range(9) if tables.relevant[7] >> action & 1)
    asks = -(-math.prod(many + 1 for many in kinds.values()) // endgame.RENT)
    assert asks > 1 and [endgame.settle(tables, games, 7) for _ in range(asks + 1)] == [False] * (asks - 1) + [True] * 2
    made = [left for left in range(8) if left.bit_count() > valid]
    assert games.visits[7] == asks and np.flatnonzero(games.begin).tolist() == made
    value = values(tables)
    for left in made:
        for unused in range(1 << 9):
            places = [games.offset[left, nibble, unused >> 4 * nibble & 15] for nibble in range(3)]
            assert games.value[games.begin[left] + sum(places)] == pytest.approx(value(left, unused), abs=1e-12)


def test_the_search_looks_at_as_many_states_as_on_record():
    rng, said = random.Random(3), []
    tasks = [
        random_game(rng, truths, actions, 3, (0.2, 0.4))
        for truths, actions in ((2, 3), (6, 9), (9, 10), (5, 12), (13, 7))
    ]
    tasks += generate_tasks(load_domain("medical"), 8, 12, count=1) + generate_tasks(
        load_domain("music"), 10, 14, count=1, valid_truths=2
    )
    for task in tasks:
        search = OptimalSearch(task)
        steps = search.expected_steps
        games = search._games
        first = search.states_known
        play = search.rollout()
        said.append(
            f"{task.domain} {len(task.truths)} {len(task.actions)}: {steps:.6g} by {first} states, {search.states_known} after "
            f"{' '.join(play)}; {games.visits.sum()} visits, {(games.begin > 0).sum()} endgames of {games.used[0]} entries, "
            f"{(games.begin < 0).sum()} too long"
        )
    check_golden("kumo_search", "\n".join(said))


def test_machine_code_is_kept_by_what_all_its_sources_say(tmp_path, monkeypatch):
    home = Path(tables.__file__).parent
    decorated = re.compile(r"^@(compiled|compiled_lean|inlined)$", re.MULTILINE)
    compiled_in = {path.name for path in home.glob("*.py") if decorated.search(path.read_text())}
    assert compiled_in == set(tables.SOURCES), "each file that is compiled is one of the sources"
    key = tables._hash_of_sources()
    assert f"kumo-{key}" in kernel.explore.stats.cache_path
    keys = set()
    monkeypatch.setattr(tables, "__file__", str(tmp_path / "tables.py"))
    for name in tables.SOURCES:
        shutil.copy(home / name, tmp_path)
    assert tables._hash_of_sources.__wrapped__() == key
    for name in tables.SOURCES:
        with (tmp_path / name).open("a") as file:
            file.write("# changed\n")
        keys.add(tables._hash_of_sources.__wrapped__())
    assert len(keys - {key}) == len(tables.SOURCES)


@pytest.mark.parametrize("is_new", [True, False])
def test_machine_code_of_other_sources_is_removed_by_new_one_once_nobody_has_written_it_for_a_day(
    is_new, tmp_path, monkeypatch
):
    monkeypatch.setattr(tables.numba.config, "CACHE_DIR", str(tmp_path))
    folders = {"old": "kumo-" + "0" * 16, "written today": "kumo-" + "1" * 16, "another's": "kumo-of-somebody"}
    long_ago = time.time() - 2 * tables.KEPT_SECONDS
    for what, name in folders.items():
        (tmp_path / name / "of a file").mkdir(parents=True)
        code = tmp_path / name / "of a file" / "function.nbi"
        code.touch()
        for path in (*([] if what == "written today" else [code]), code.parent, tmp_path / name):
            os.utime(path, (long_ago, long_ago))
    if not is_new:
        (tmp_path / f"kumo-{tables._hash_of_sources()}").mkdir()
    with tables._cache_of_these_sources():
        assert Path(tables.numba.config.CACHE_DIR) == tmp_path / f"kumo-{tables._hash_of_sources()}"
    assert str(tmp_path) == tables.numba.config.CACHE_DIR
    left = {what for what, name in folders.items() if (tmp_path / name).exists()}
    assert left == {"written today", "another's"} | (set() if is_new else {"old"})


def sum_to(number):
    total = 0
    for each in range(number + 1):
        total += each
    return total


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def machine_code(tmp_path, monkeypatch):
    """A folder for machine code, and nothing that was warned of."""
    monkeypatch.setattr(tables.numba.config, "CACHE_DIR", str(tmp_path / "code"))
    monkeypatch.setattr(tables, "_WARNED", set())
    return tmp_path / "code"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), EOFError("half a file"), ValueError("damaged")])
def test_no_failure_of_machine_code_on_disk_gets_out(error, machine_code, monkeypatch, caplog):
    cache = tables.compiled(sum_to)._cache

    def fails(*_, **__):
        raise error

    for name in ("load_overload", "save_overload", "flush"):
        monkeypatch.setattr(f"numba.core.caching.FunctionCache.{name}", fails)
    for _ in range(2):
        assert cache.load_overload("signature", None) is None
        cache.save_overload("signature", None)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2 and all(str(machine_code) in line and str(error) in line for line in said)


@pytest.mark.slow
@pytest.mark.parametrize("decorator", [tables.compiled, tables.compiled_lean])
@pytest.mark.parametrize("is_full", [True, False])
def test_machine_code_that_cannot_be_kept_costs_no_game(is_full, decorator, machine_code, monkeypatch, caplog):
    functions = [decorator(sum_to), decorator(sum_to)]
    if is_full:
        monkeypatch.setattr("numba.core.caching.IndexDataCacheFile._open_for_write", full)
    else:
        shutil.rmtree(machine_code)
        machine_code.write_text("a file by now")
    assert [function(4) for function in functions] == [10, 10]
    kept = [record.getMessage() for record in caplog.records if "cannot be kept" in record.getMessage()]
    assert len(kept) == 1 and str(machine_code) in kept[0]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize(
    "damage", [lambda code: b"", lambda code: code[: len(code) // 2], lambda code: bytes(len(code))]
)
def test_damaged_machine_code_is_compiled_and_kept_anew(damage, suffix, machine_code, caplog):
    assert tables.compiled(sum_to)(4) == 10 and not caplog.records
    (damaged,) = machine_code.rglob(f"*.{suffix}")
    damaged.write_bytes(damage(damaged.read_bytes()))
    hits = []
    for _ in range(2):
        function = tables.compiled(sum_to)
        assert function(4) == 10
        hits.append(sum(function.stats.cache_hits.values()))
    assert hits == [0, 1]
    (warning,) = caplog.records
    assert "cannot be read is compiled anew" in warning.getMessage()


def test_machine_code_is_kept_elsewhere_where_its_place_cannot_be_looked_into(machine_code, monkeypatch):
    monkeypatch.setattr(tables.numba.config, "CACHE_DIR", "/" + "x" * 300)
    assert "xxx" not in tables.compiled(sum_to).stats.cache_path
