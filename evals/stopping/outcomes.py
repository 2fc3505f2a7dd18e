"""The outcomes of a run's games in their fixed order, and what a rule says of them.

Only the games up to the first unfinished one count: games finish in another order than they start, quick ones first, and a
sample of the quick ones would not be a fair one. So what is decided depends on the outcomes alone, neither on how many
replicas played nor on what was killed in between.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from evals.stats.intervals import Estimate
from evals.stopping.order import Game, games_in_order
from evals.stopping.rules import Decision, StopRule, decide, measure_precisely
from evals.tables import format_cell

Pair = tuple[str, str, str, str, int, int, int]
"""Suite, task, level, mode, index, repeat and seed: equal for the two episodes of a pair."""
PAIR_COLUMNS = ("suite", "task", "level", "mode", "index", "repeat", "seed")
COUNTED_AS_LOST = ("success", "score")
"""Measures in which a failed episode counts as 0, as in the tables of results; of others it is left out."""

CELLS_STOP = (
    "each cell stops by itself: tables that join cells weigh each by the games that it took, and their intervals hold for no "
    "mean of the plan"
)
"""What is said of a run with ``stop.by=cell`` beside its decisions."""


def measurable(schema: pa.Schema) -> list[str]:
    """The columns of a ledger that a rule can measure: those of numbers and truth values."""
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    return [column.name for column in schema if any(is_kind(column.type) for is_kind in kinds)]


@dataclass(frozen=True)
class GroupState:
    """One decision of a run."""

    name: str
    """What it is about: a suite, a cell; empty for the whole run."""
    decision: Decision
    planned: int
    """Games that it could take."""
    left_out: int = 0
    """Finished games that cannot be compared, and are none of these: one side has no value of the measure."""

    @property
    def ended(self) -> bool:
        """Whether no further game is needed: there is a decision, or the games are used up."""
        return not self.decision.open or self.decision.games >= self.planned


@dataclass(frozen=True)
class StopState:
    """What a rule says of a run as it is."""

    rule: StopRule
    player: str
    groups: tuple[GroupState, ...]
    needed: frozenset[str]
    """Episodes of the games that the decisions took, or may still take."""
    beyond: int = 0
    """Values of the measure beyond the bounds of the rule."""
    unmatched: int = 0
    """Games of the plan that the other side of a comparison lacks: no decision takes them, so they are not played."""

    @property
    def ended(self) -> bool:
        """Whether every decision has been made."""
        return all(group.ended for group in self.groups)

    @property
    def stopped(self) -> bool:
        """Whether the run has ended before its plan."""
        return self.ended and any(group.decision.games < group.planned for group in self.groups)

    def to_numbers(self) -> dict[str, float]:
        """Flat metrics for a tracker, a few for each decision."""
        flat: dict[str, float] = {}
        for group in self.groups:
            stem = f"stopping/{group.name}/" if group.name else "stopping/"
            decision = group.decision
            flat |= {f"{stem}games": decision.games, f"{stem}decided": float(not decision.open)}
            if decision.games:
                estimate = decision.estimate
                flat |= {f"{stem}mean": estimate.mean, f"{stem}low": estimate.low, f"{stem}high": estimate.high}
            if decision.e_value is not None:
                flat[f"{stem}e_value"] = decision.e_value
        return flat

    def to_json(self) -> dict[str, Any]:
        """Rule and decisions as plain values, for ``summary.json``."""
        decisions = []
        for group in self.groups:
            decision = group.decision
            ends: dict[str, float | None] = dict.fromkeys(("mean", "low", "high"))
            if decision.games:
                ends = {name: getattr(decision.estimate, name) for name in ends}
            decisions.append(
                {
                    "about": group.name,
                    "verdict": decision.verdict,
                    "games": decision.games,
                    "planned_games": group.planned,
                    "e_value": decision.e_value,
                    "estimate": ends,
                    "text": sentence(self.rule, self.player, group),
                }
            )
        return {"rule": self.rule.to_json(), "player": self.player, "stopped": self.stopped, "decisions": decisions}

    def decisions(self) -> list[str]:
        """A sentence for each decision, what is still open last."""
        ordered = sorted(self.groups, key=lambda group: group.decision.open)
        return [sentence(self.rule, self.player, group) for group in ordered]

    def lines(self) -> list[str]:
        """The decisions; then what limits, or spoils them."""
        sentences = self.decisions()
        if self.rule.by == "cell" and len(self.groups) > 1:
            sentences.append(CELLS_STOP)
        if self.unmatched:
            sentences.append(
                f"{self.unmatched:,} more games of the plan have no counterpart at {self.rule.against} and are not played; "
                "stop=none plays them"
            )
        if self.beyond:
            rule = self.rule
            sentences.append(
                f"warning: {self.beyond:,} values of {rule.measure} lie beyond stop.bounds=[{rule.least:g}, {rule.largest:g}] "
                "and count as these: what was decided holds for such values only"
            )
        return sentences


@dataclass
class _Group:
    """The games of one decision, and how far they are complete."""

    name: str
    games: list[list[str]] = field(default_factory=list)
    """The model's episodes of each game, in the fixed order."""
    all_episodes: list[list[str]] = field(default_factory=list)
    """The same games' episodes of all players."""
    complete: int = 0
    """Leading games whose episodes are all finished."""
    totals: list[float] = field(default_factory=list)
    """Of each complete game: the sum of its observations; of paired games, the mean difference."""
    sizes: list[int] = field(default_factory=list)
    counted: list[int] = field(default_factory=list)
    """Of each of these games its number among all, from 1."""
    largest: int = 1
    latest: Decision | None = None
    """Of a look at so many complete games as now."""


class Outcomes:
    """Collects outcomes as they come and tells what the rule says of them."""

    def __init__(self, rule: StopRule, plan: pa.Table, player: str, other: Mapping[Pair, float] | None = None) -> None:
        """Sort the plan's games.

        Args:
            rule: When to stop.
            plan: One row per planned episode.
            player: The model, whose games count.
            other: For ``decided`` against another run: what its player reached, by pair; games that it lacks cannot be
                compared and are not played. Without it, ``rule.against`` is a player of this plan.
        """
        self.rule, self.player = rule, player
        self.games: list[Game] = games_in_order(plan)
        self._values: dict[str, float] = {}
        self._beyond = 0
        self._unmatched = 0
        self._other = other
        self._twin: dict[str, str] = {}
        self._pair: dict[str, Pair] = {}
        self._groups = self._grouped(plan)
        self._ended: tuple[bool, ...] = ()
        self._needed: frozenset[str] | None = None

    def _grouped(self, plan: pa.Table) -> list[_Group]:
        pairs = zip(*(plan[name].to_pylist() for name in PAIR_COLUMNS), strict=True)
        ids, players = plan["episode_id"].to_pylist(), plan["player"].to_pylist()
        owner = dict(zip(ids, players, strict=True))
        self._pair = dict(zip(ids, pairs, strict=True))
        if self.rule.kind == "decided" and self._other is None:
            self._twin = self._twins_within(owner)
        groups: dict[str, _Group] = {}
        for game in self.games:
            for name, every in self._by_group(game).items():
                of_player = [one for one in every if owner[one] == self.player]
                own = [one for one in of_player if self._comparable(one)]
                if not own:
                    self._unmatched += bool(of_player)
                    continue
                group = groups.setdefault(name, _Group(name))
                group.games.append(own)
                group.all_episodes.append(every)
                group.largest = max(group.largest, len(own))
        return list(groups.values())

    def _by_group(self, game: Game) -> dict[str, list[str]]:
        """The episodes of a game, by the name of their group."""
        found: dict[str, list[str]] = {}
        for episode in game.episodes:
            found.setdefault(self._group_name(self._pair[episode]), []).append(episode)
        return found

    def _twins_within(self, owner: Mapping[str, str]) -> dict[str, str]:
        """For each of the player's episodes that of the player of the same run whom it is compared with."""
        theirs = {self._pair[one]: one for one in owner if owner[one] == self.rule.against}
        twins = {}
        for one in owner:
            pair = self._pair[one]
            if owner[one] == self.player and pair in theirs:
                twins[one] = theirs[pair]
        return twins

    def _group_name(self, pair: Pair) -> str:
        return {"run": "", "suite": pair[0], "cell": " ".join(pair[:4])}[self.rule.by]

    def _comparable(self, episode: str) -> bool:
        if self.rule.kind != "decided":
            return True
        return episode in self._twin if self._other is None else self._pair[episode] in self._other

    def add(self, rows: pa.Table) -> None:
        """Take the outcomes of finished episodes: ``episode_id``, ``status`` and the measure's column."""
        columns = (rows[name].to_pylist() for name in ("episode_id", "status", self.rule.measure))
        for episode, status, value in zip(*columns, strict=True):
            if value is None:
                lost = status == "failed" and self.rule.measure in COUNTED_AS_LOST
                self._values[episode] = 0.0 if lost else math.nan
            else:
                self._beyond += not self.rule.least <= value <= self.rule.largest
                self._values[episode] = self.rule.scaled(float(value))

    def look(self) -> StopState:
        """What the rule says now."""
        alpha = self.rule.alpha / max(1, len(self._groups))
        states = tuple(self._state(group, alpha) for group in self._groups)
        ended = tuple(state.ended for state in states)
        if self._needed is None or ended != self._ended:
            # The same set as before where no decision has ended since: with a million episodes it takes a moment to make.
            self._ended, self._needed = ended, self._needed_by(states)
        return StopState(self.rule, self.player, states, self._needed, self._beyond, self._unmatched)

    def _state(self, group: _Group, alpha: float) -> GroupState:
        decision = self._decision(group, alpha)
        left_out = group.complete - len(group.counted)
        return GroupState(group.name, decision, len(group.games) - left_out, left_out)

    def _needed_by(self, states: tuple[GroupState, ...]) -> frozenset[str]:
        needed: set[str] = set()
        for group, state in zip(self._groups, states, strict=True):
            # A decision that has been made needs no game behind the one at which it fell.
            taken = len(group.games) if state.decision.open else group.counted[state.decision.games - 1]
            for episodes in group.all_episodes[:taken]:
                needed.update(episodes)
        return frozenset(needed)

    def _decision(self, group: _Group, alpha: float) -> Decision:
        latest = group.latest
        # Later games change nothing.
        if latest is not None and not latest.open:
            return latest
        has_advanced = self._advance(group)
        if latest is not None and not has_advanced:
            return latest
        most = self.rule.most
        if self.rule.kind == "decided":
            found = decide(group.totals, alpha, self._scaled(self.rule.delta), most)
            shift = 0.0
        else:
            half_width = self._scaled(self.rule.precision) or 1.0
            looked = 0 if latest is None else latest.games
            found = measure_precisely(group.totals, group.sizes, group.largest, alpha, half_width, most, looked)
            shift = self.rule.least
        decision = Decision(found.verdict, found.games, self._unscaled(found.estimate, shift), found.e_value)
        group.latest = decision
        return decision

    def _scaled(self, width: float | None) -> float | None:
        return None if width is None else width / (self.rule.largest - self.rule.least)

    def _unscaled(self, estimate: Estimate, shift: float) -> Estimate:
        factor = self.rule.largest - self.rule.least
        mean, low, high = (shift + factor * value for value in (estimate.mean, estimate.low, estimate.high))
        return Estimate(mean, low, high, estimate.n)

    def _is_complete(self, own: Sequence[str]) -> bool:
        """Whether the player has finished these episodes of a game, and the other side those that are paired with them."""
        twins = [self._twin[one] for one in own if one in self._twin]
        return all(one in self._values for one in [*own, *twins])

    def _advance(self, group: _Group) -> bool:
        """Take in the games that have become complete, up to the first that has not; whether there were any."""
        before = group.complete
        for own in group.games[before:]:
            if not self._is_complete(own):
                break
            values = [self._observation(one) for one in own]
            known = [value for value in values if not math.isnan(value)]
            total = math.fsum(known)
            group.complete += 1
            # Pairs are compared by the mean of each game, and a game without any tells nothing of a difference.
            if self.rule.kind == "decided":
                if not known:
                    continue
                total /= len(known)
            group.totals.append(total)
            group.sizes.append(len(known))
            group.counted.append(group.complete)
        return group.complete > before

    def _observation(self, episode: str) -> float:
        value = self._values[episode]
        if self.rule.kind != "decided":
            return value
        if self._other is not None:
            return value - self.rule.scaled(self._other[self._pair[episode]])
        return value - self._values[self._twin[episode]]


def sentence(rule: StopRule, player: str, group: GroupState) -> str:
    """What was decided, or is still open, in words."""
    decision = group.decision
    about = f"{group.name}: " if group.name else ""
    looked = f"{decision.games:,} of {group.planned:,} games"
    if group.left_out:
        looked += f" ({group.left_out:,} more without {rule.measure} of both)"
    e_value = f", e-value {decision.e_value:.3g}" if decision.e_value is not None else ""
    shown = f"{rule.measure} {format_cell(decision.estimate)}"
    if rule.kind == "decided":
        shown = f"{player} - {rule.against} = {format_cell(decision.estimate)}{e_value}"
    held = f"{100 * (1 - rule.alpha):g} % anytime-valid interval"
    found = {
        "first": f"{about}stopped: decided after {looked}: {player} is better than {rule.against}: {shown}",
        "second": f"{about}stopped: decided after {looked}: {rule.against} is better than {player}: {shown}",
        "tie": f"{about}stopped: decided after {looked}: no difference larger than {rule.delta}: {shown}",
        "precise": f"{about}stopped: precise after {looked}: {shown}",
        "maximum": f"{about}stopped: at its maximum after {looked}, without a decision: {shown}",
        "open": f"{about}not {rule.kind} after {looked}: {shown}",
    }[decision.verdict]
    return f"{found} ({held})"
