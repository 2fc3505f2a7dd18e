"""Graph signatures of games against majority correctness, for each player (paper, Figure 6e)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from evals.suites.kumo.lab.analysis.association import DRAWS, Association, associate
from evals.suites.kumo.repeats import Run, groups_of
from evals.tables import Cell, Table


def majority(runs: Sequence[Run]) -> dict[str, bool]:
    """For each game (``Run.game``) that was played whether more than half of its runs succeeded (of five, three)."""
    played: defaultdict[str, list[bool]] = defaultdict(list)
    for run in runs:
        if run.status:
            played[run.game].append(run.success)
    return {game: 2 * sum(won) > len(won) for game, won in played.items()}


def structure_associations(
    runs: Sequence[Run], signatures: Mapping[str, str]
) -> dict[tuple[str, str], Association | None]:
    """The association of each player and difficulty; None where it cannot be told (see ``associate``).

    Args:
        runs: As ``join_runs`` gives them.
        signatures: Of each game.
    """
    domains = {run.game: run.domain for run in runs}
    found = {}
    for (player, difficulty), members in groups_of(runs, lambda run: (run.player, run.difficulty)).items():
        right = majority(members)
        if right:
            kinds = [signatures[game] for game in right]
            found[player, difficulty] = associate(kinds, [*right.values()], [domains[game] for game in right])
    return found


def structure_table(found: Mapping[tuple[str, str], Association | None]) -> Table:
    """A row for each player and difficulty."""
    rows: list[tuple[Cell, ...]] = []
    for key, each in found.items():
        if each is None:
            rows.append((*key, *[None] * 11))
            continue
        rows.append(
            (
                *key,
                *(each.tasks, each.kinds, each.chi_square, each.degrees, each.p, each.p_permuted, each.p_within),
                *(each.v, each.v_by_chance, each.v_corrected, each.v_estimated),
            )
        )
    return Table(
        name="kumo_structure",
        title="KUMO: structure of the games against correctness",
        columns=(
            *("player", "difficulty", "tasks", "signatures", "chi-square", "df", "p", "p permuted", "p within domains"),
            *("V", "V by chance", "V corrected", "V estimated"),
        ),
        rows=tuple(rows),
        notes=(
            "A task is correct if most of its runs succeeded. Its signature: the sorted degrees of truths and tests in the "
            "graph of which test can rule out which truth. p: chi-square test of independence (Eq. 6); V: Cramér's (Eq. 7).",
            f"p permuted: share of {DRAWS:,} permutations of the outcomes with as large a chi-square, which holds for rare "
            "signatures, too. within domains: only outcomes of one domain change places, so that what makes whole domains "
            "easy or hard does not count.",
            "V by chance: mean of V over the permutations; with many signatures it is far from 0. V corrected: for this "
            "bias (Bergsma, 2013). V estimated: from the spread within signatures of two tasks or more, which is unbiased "
            "where rare signatures are extreme, too, and is left out if these are fewer than half of the tasks or have one "
            "outcome only. Dashes only: nothing can be told, because every task was correct, or none, or no two tasks have "
            "the same signature.",
        ),
        section="diagnostics",
        brief=("player", "difficulty", "tasks", "signatures", "p", "p permuted", "V", "V by chance", "V estimated"),
    )
