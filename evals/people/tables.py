"""What a study found, as tables: participants, agreement, people beside models on identical games, reviews."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence

from evals.analysis.compare import in_one_cell
from evals.conversation import Record
from evals.ledger.run_data import RunData
from evals.people.agreement import Agreement, fleiss_kappa
from evals.people.games import Games
from evals.people.records import Taken
from evals.people.seat import YES_NO
from evals.people.study import STUDY, Plan
from evals.stats.intervals import UNIT, mean_estimate
from evals.summary.paired import Observation, column_measure, paired_effects
from evals.tables import Cell, Table, rounded

KAPPA_NOTE = (
    "Fleiss' kappa = (observed - chance) / (1 - chance) over games that two people or more have finished: observed is the "
    "mean share of agreeing pairs of ratings of a game, chance the sum of the squared shares of categories. Interval: 95 %, "
    "leaving out one game at a time"
)
ALL = "all"


def participants_table(taken: Sequence[Taken], plan: Plan) -> Table:
    """One row for each participant: how far, how long, checks, pay."""
    rows = [_participant_row(each, plan) for each in taken]
    columns = (
        *("person", "code", "finished", "games", "won", "checks_passed", "checks_seen"),
        *("minutes", "minutes_hidden", "answers", "clicks_ignored", "pay"),
    )
    notes = (
        "minutes: with a question in sight; minutes_hidden: with a question in a tab or window that was not. pay: of who has "
        f"finished{f', in {plan.pay.currency}' if plan.pay.currency else ''}",
    )
    return Table("people_participants", "Participants", columns, tuple(rows), notes)


def _participant_row(taken: Taken, plan: Plan) -> tuple[Cell, ...]:
    outcomes = [record.outcome for record in taken.records if record.outcome is not None]
    won = sum(outcome.success for outcome in outcomes)
    share = won / len(outcomes) if outcomes else 0.0
    steps = sum(outcome.steps for outcome in outcomes)
    # Who has not finished gets neither a code nor pay.
    code = None
    pay = None
    if taken.finished:
        code = taken.participant.code
        pay = rounded(plan.pay.of(share, steps), 2)  # cents are shown, whatever the amount
    return (
        taken.participant.person,
        code,
        "yes" if taken.finished else "no",
        len(taken.records) or len(taken.reviews),
        won if plan.kind == "play" else None,
        taken.checks_passed,
        taken.checks_seen,
        round(taken.visible / 60, 2),
        round(taken.hidden / 60, 2),
        taken.answers,
        taken.ignored,
        pay,
    )


def play_agreement_table(taken: Sequence[Taken]) -> Table:
    """Agreement by suite and level, over what people chose in games of one turn, and over won or lost in longer ones."""
    ratings: dict[tuple[str, str], list[tuple[Hashable, Hashable]]] = defaultdict(list)
    longest: dict[tuple[str, str], int] = defaultdict(int)
    done = [record for each in taken for record in each.records if record.outcome is not None]
    for record in done:
        group = (record.episode.suite, record.episode.level)
        longest[group] = max(longest[group], len(record.turns))
    for record in done:
        episode = record.episode
        group = (episode.suite, episode.level)
        game = (episode.suite, episode.task, episode.level, episode.mode, episode.index, episode.repeat, episode.seed)
        category = _won_or_lost(record)
        if longest[group] == 1:
            category = record.turns[0].reply.text
        ratings[group].append((game, category))
    rows: list[tuple[Cell, ...]] = []
    for (suite, level), each in ratings.items():
        category = "choice" if longest[suite, level] == 1 else "won or lost"
        rows.append((suite, level, category, *_agreement_cells(fleiss_kappa(each))))
    columns = ("suite", "level", "category", "games", "ratings", "observed", "chance", "kappa")
    return Table("people_agreement", "Agreement between people", columns, tuple(rows), (KAPPA_NOTE,))


def _won_or_lost(record: Record) -> str:
    has_won = record.outcome is not None and record.outcome.success
    return "won" if has_won else "lost"


def review_table(taken: Sequence[Taken], plan: Plan, games: Games) -> Table:
    """Share of Yes and agreement for each criterion, by kind of question and over all (as MultiStAR's Table 11)."""
    ratings = _reviews(taken, plan, games)
    rows: list[tuple[Cell, ...]] = []
    notes = [KAPPA_NOTE]
    other = _answers_to_other_criteria(taken, plan)
    if other:
        notes.append(f"left out: {other:,} answers to criteria that {STUDY} no longer has, or not in these words")
    names = [criterion.name for criterion in plan.criteria]
    levels = [*dict.fromkeys(game.level for game in games.by_id.values()), ALL]
    ordered = sorted(ratings, key=lambda key: (names.index(key[0]), levels.index(key[1])))
    for criterion, level in ordered:
        found = ratings[criterion, level]
        agrees = [float(choice == YES_NO[0]) for _, choice in found]
        reviewed = [game for game, _ in found]
        positive = mean_estimate(agrees, reviewed, bounds=UNIT)
        rows.append((criterion, level, positive, *_agreement_cells(fleiss_kappa(found))))
    columns = ("criterion", "level", "positive", "games", "ratings", "observed", "chance", "kappa")
    return Table("people_reviews", "Reviews of questions", columns, tuple(rows), tuple(notes))


def _answers_to_other_criteria(taken: Sequence[Taken], plan: Plan) -> int:
    known = {criterion.key for criterion in plan.criteria}
    return sum(key not in known for each in taken for answers in each.reviews.values() for key in answers)


def _reviews(taken: Sequence[Taken], plan: Plan, games: Games) -> Mapping[tuple[str, str], list[tuple[Hashable, str]]]:
    """Games and what people chose for them, by criterion and kind of question; each also counts over all kinds."""
    ratings: dict[tuple[str, str], list[tuple[Hashable, str]]] = defaultdict(list)
    for each in taken:
        for game, answers in each.reviews.items():
            for asked in plan.criteria:
                if asked.key in answers:
                    answer = (game, answers[asked.key])
                    ratings[asked.name, games.by_id[game].level].append(answer)
                    ratings[asked.name, ALL].append(answer)
    return ratings


def _agreement_cells(found: Agreement | None) -> tuple[Cell, ...]:
    if found is None:
        return 0, 0, None, None, None
    return found.kappa.n, found.ratings, found.observed, found.chance, found.kappa


def against_table(people: RunData, persons: Sequence[str], models: Mapping[str, RunData]) -> Table:
    """People beside the players of other runs, on the games that both have finished.

    Args:
        people: The study's run.
        persons: Players in it.
        models: Other runs by the names that the table gives them.
    """
    rows: list[tuple[Cell, ...]] = []
    notes = [
        "success on identical games; a game's success of people is the mean over those who have finished it. Interval and p: "
        "paired by game"
    ]
    for name, run in models.items():
        rows_before = len(rows)
        shared = [suite for suite in dict.fromkeys(run.plan["suite"].to_pylist()) if len(people.of(suite).plan)]
        for suite in shared:
            of_people = list(_of_people(people.of(suite), persons))
            for player in dict.fromkeys(run.of(suite).plan["player"].to_pylist()):
                theirs = in_one_cell(column_measure(run.of(suite), player).observations)
                for effect in paired_effects(of_people, theirs):
                    cells = (effect.games, effect.first, effect.second, effect.difference, effect.p)
                    rows.append((suite, f"{name}: {player}", *cells))
        if len(rows) == rows_before:
            notes.append(f"{name}: has finished none of the games that the people have finished")
    columns = ("suite", "against", "games", "people", "theirs", "people - theirs", "p")
    return Table("people_against", "People and models on identical games", columns, tuple(rows), tuple(notes))


def _of_people(run: RunData, persons: Sequence[str]) -> Iterator[Observation]:
    """The mean success of all people in each game."""
    found: dict[Observation, list[float]] = defaultdict(list)
    for person in persons:
        for one in in_one_cell(column_measure(run, person).observations):
            found[one._replace(value=0.0)].append(one.value)
    return (one._replace(value=sum(values) / len(values)) for one, values in found.items())
