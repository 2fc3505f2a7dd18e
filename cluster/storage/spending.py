"""The spending journal of a run: what was paid for, and what may have to be, over all sessions.

What a request may cost is written before it is sent, and what it did cost within seconds of its answer. So after a death
of the driver, the journal holds at least what was paid; what was in flight counts as spent.
"""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.console import warn
from cluster.errors import UserError
from cluster.storage.durable import write_durably
from envs.files import read_json, real_path
from evals.ledger.check import MOST
from evals.summary.cost import money

SPENDING = "spending.json"


@dataclass(frozen=True)
class MergedPart:
    """What sessions had spent when runs were merged: those of a run that was merged into this one, or this one's own."""

    sessions: tuple[str, ...]
    """Ids of its sessions, which tell it from others wherever it lies."""
    total: float


@dataclass(frozen=True)
class Spenders:
    """Who has spent the money of a run."""

    sessions: tuple[str, ...]
    """Ids of its sessions."""
    place: str
    """Its absolute path, which stands for sessions of which nothing is known."""

    @classmethod
    def of(cls, run_dir: Path, sessions: Sequence[Mapping[str, Any]]) -> Spenders:
        """Those of a run with these entries of ``versions.json``."""
        return cls(tuple(str(session.get("id")) for session in sessions), str(real_path(run_dir)))


@dataclass(frozen=True)
class Spending:
    """Money, in the currency of the prices."""

    spent: float = 0.0
    in_flight: float = 0.0
    """The most that requests may cost whose answers are not there, or never came to the journal."""
    highest: float = 0.0
    """Price of the most expensive request."""
    merged: tuple[MergedPart, ...] = ()
    """Of ``spent``, what is known by its sessions since a merge or a retest."""
    retests: tuple[str, ...] = ()
    """Ids of what has spent ``own`` without being a session of the run."""

    @property
    def own(self) -> float:
        """What was spent in this run directory since the last merge or the begin of the last retest, if there was one."""
        # sums in another order differ in their last digits
        return max(0.0, round(self.total - sum(part.total for part in self.merged), 12))

    @property
    def total(self) -> float:
        """What counts against a spend cap."""
        return self.spent + self.in_flight

    def parts(self, spenders: Spenders) -> tuple[MergedPart, ...]:
        """All that was spent, each part with the ids of what has spent it."""
        if not self.own:
            return self.merged
        known = {id for part in self.merged for id in part.sessions}
        ids = [id for id in (*spenders.sessions, *self.retests) if id not in known]
        return (*self.merged, MergedPart(tuple(ids) or (spenders.place,), self.own))

    def before_retest(self, spenders: Spenders) -> Spending:
        """The same money, where all that comes now is a retest's: told apart from the retests of a copy of the run."""
        return dataclasses.replace(self, merged=self.parts(spenders), retests=(f"retest-{secrets.token_hex(8)}",))


def read_spending(run_dir: Path) -> Spending:
    """What all sessions have spent; nothing for a new run.

    Raises:
        UserError: the journal is damaged: starting at 0 would let the spend cap be exceeded.
    """
    path = run_dir / SPENDING
    if not os.path.lexists(path):
        return Spending()
    try:
        stored = read_json(path)
        # older versions have written nothing but ``spent``
        noted = [stored["spent"], stored.get("in_flight", 0), stored.get("highest", 0)]
        parts = []
        for part in stored.get("merged", ()):
            sessions = tuple(map(str, part["sessions"]))
            parts.append((sessions, part["total"]))
        retests = tuple(map(str, stored.get("retests", ())))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{path}: damaged, cannot be read as what the run has spent: {error}") from error
    amounts = [*noted, *(total for _, total in parts)]
    if not all(map(_is_amount, amounts)):
        raise UserError(f"{path}: damaged: no amounts of money: {amounts}")
    spent, in_flight, highest = map(float, noted)
    merged = [MergedPart(sessions, float(total)) for sessions, total in parts]
    return Spending(spent, in_flight, highest, tuple(merged), retests)


def _is_amount(value: object) -> bool:
    """Whether a JSON value is an amount of money: a number, neither a text of digits nor a truth value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 <= value <= MOST  # so that sums of amounts are finite


def check_journal(run_dir: Path, cost: float, capped: bool) -> None:
    """See that the journal holds what the rows of the ledger have cost, at least.

    Args:
        run_dir: Of the run.
        cost: What the rows of its ledger cost.
        capped: Whether there is a spend cap, which would count from too little.

    Raises:
        UserError: it is missing or holds less, and there is a spend cap; without one, a warning says so. Or it is damaged.
    """
    path = run_dir / SPENDING
    noted = read_spending(run_dir).total
    # sums in another order differ in their last digits
    if noted >= cost * (1 - 1e-9):
        return
    found = f"holds {money(noted)}" if os.path.lexists(path) else "missing"
    too_little = (
        f"{path}: {found}, though the ledger's episodes cost {money(cost)}. Restore it, or write into it what was spent, at "
        f'least: {{"spent": {cost:.12g}}}'
    )
    if capped:
        raise UserError(f"{too_little}. Without it, the run could spend more than model.engine.spend_cap")
    warn(too_little)


def write_spending(run_dir: Path, spending: Spending) -> None:
    """Replace a run's journal.

    Raises:
        OSError: it cannot be written.
    """
    write_durably(run_dir / SPENDING, _content(spending))


def _content(spending: Spending) -> bytes:
    stored: dict[str, Any] = {
        "spent": spending.spent,
        "in_flight": spending.in_flight,
        "highest": spending.highest,
    }
    if spending.merged:
        stored["merged"] = [dataclasses.asdict(part) for part in spending.merged]
    if spending.retests:
        stored["retests"] = spending.retests
    return (json.dumps(stored) + "\n").encode()


class SpendingJournal:
    """Keeps the accounts of a session's engines on disk."""

    def __init__(
        self, run_dir: Path, check: Callable[[], None] = lambda: None, retest_of: Spenders | None = None
    ) -> None:
        """Go on from what earlier sessions have written.

        Args:
            run_dir: Of the run.
            check: Raises if this driver may no longer write.
            retest_of: If this is a retest: who has spent money before it.

        Raises:
            UserError: see ``read_spending``.
        """
        self.before = read_spending(run_dir)
        if retest_of is not None:
            self.before = self.before.before_retest(retest_of)
        self._run_dir = run_dir
        self._check = check
        self._accounts: dict[str, Spending] = {}
        self._written = b""
        self._writing = threading.Lock()

    def note(self, engine: str, account: Spending) -> None:
        """Replace an engine's account; it counts for good, also when the engine is gone."""
        self._accounts[engine] = account

    @property
    def now(self) -> Spending:
        """All sessions together; what earlier ones left in flight counts as spent."""
        accounts = list(self._accounts.values())
        return Spending(
            # an engine takes back what earlier sessions counted too high; sums in another order differ in their last digits
            spent=max(0.0, self.before.total + sum(account.spent for account in accounts)),
            in_flight=sum(account.in_flight for account in accounts),
            highest=max([self.before.highest, *(account.highest for account in accounts)]),
            merged=self.before.merged,
            retests=self.before.retests,
        )

    def write(self) -> None:
        """Write the accounts as they are; when this returns they survive the death of anything.

        Raises:
            OSError: they cannot be written.
            LeaseLostError: another driver has taken over.
        """
        with self._writing:
            content = _content(self.now)
            if content == self._written or (not self._written and not self._accounts):
                return
            self._check()
            write_durably(self._run_dir / SPENDING, content)
            self._written = content
