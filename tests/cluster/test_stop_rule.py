"""The files of a stopping rule, when the start that changes them ends at any moment."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.errors import UserError
from cluster.storage.stop_rule import AGAINST, StoredRule, read_rule, remove_rule, write_rule
from evals.stopping.rules import StopRule

PAIRS = [("kumo", "medical", "easy", "zero_shot", str(game), "0", str(game)) for game in range(3)]
COMPARED = StoredRule(StopRule("decided", against="one"), "m", dict.fromkeys(PAIRS, 1.0))
ELSEWHERE = StoredRule(StopRule("decided", against="two"), "m", dict.fromkeys(PAIRS, 0.0))
ALONE = StoredRule(StopRule("precise", precision=0.1), "m", None)
STEPS = ("open", "write", "fsync", "rename", "unlink")


class KilledError(BaseException):
    """Nothing after it is done."""


def change(folder: Path, rule: StoredRule | None) -> None:
    if rule is None:
        remove_rule(folder)
    else:
        write_rule(folder, rule)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def begun(folder: Path, rule: StoredRule | None) -> Path:
    folder.mkdir()
    change(folder, rule)
    return folder


def fails_at(monkeypatch: pytest.MonkeyPatch, last: int, end: BaseException) -> None:
    """After ``last`` system calls, the next one ends the change."""
    steps = itertools.count()

    def counted(step: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if next(steps) == last:
                raise end
            return step(*arguments, **options)

        return call

    for name in STEPS:
        monkeypatch.setattr(os, name, counted(getattr(os, name)))


@pytest.mark.parametrize(
    "end", [OSError(errno.ENOSPC, "No space left on device"), KilledError()], ids=["full", "killed"]
)
@pytest.mark.parametrize(
    ("before", "after"),
    [(COMPARED, ELSEWHERE), (COMPARED, ALONE), (COMPARED, None), (None, COMPARED), (ALONE, ELSEWHERE)],
)
def test_a_change_that_ends_anywhere_leaves_the_old_rule_or_the_new(
    before: StoredRule | None,
    after: StoredRule | None,
    end: BaseException,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)  # the disk is not tried here
    undisturbed = names(begun(tmp_path / "undisturbed", after))
    for last in itertools.count():
        folder = begun(tmp_path / str(last), before)
        with monkeypatch.context() as patch:
            fails_at(patch, last, end)
            try:
                change(folder, after)
                ended = False
            except (OSError, KilledError):
                ended = True
        found = read_rule(folder)
        assert found == after or (ended and found == before)
        change(folder, after)  # the next start makes up for it
        assert read_rule(folder) == after
        assert [name for name in names(folder) if not name.endswith(".tmp")] == undisturbed
        if not ended:
            return


def test_a_rule_of_an_earlier_version_is_read_and_its_file_replaced(tmp_path: Path) -> None:
    write_rule(tmp_path, COMPARED)
    [kept] = tmp_path.glob("against-*.parquet")
    kept.rename(tmp_path / AGAINST)
    path = tmp_path / "stopping.json"
    path.write_text(path.read_text().replace(f'"{kept.name}"', "true"))
    assert read_rule(tmp_path) == COMPARED
    write_rule(tmp_path, COMPARED)
    assert names(tmp_path) == [kept.name, "stopping.json"]


@pytest.mark.parametrize("name", ["../against.parquet", "/etc/passwd", "plan.parquet", 7, ["against.parquet"]])
def test_a_rule_names_no_other_file(name: object, tmp_path: Path) -> None:
    write_rule(tmp_path, ALONE)
    path = tmp_path / "stopping.json"
    path.write_text(path.read_text().replace("false", str(name) if isinstance(name, int) else f'"{name}"'))
    with pytest.raises(UserError, match="is no name of such a file"):
        read_rule(tmp_path)
