"""What the suites of a run show of it: tables, figures, single episodes."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from evals.errors import SuiteError
from evals.figures import Figure
from evals.ledger.parts import LedgerChangedError, LedgerDamagedError
from evals.ledger.run_data import RunData
from evals.suite import Suite
from evals.summary.difficulty import Curve, DifficultyRules, curves_of, difficulty_figure, difficulty_table
from evals.summary.paired import Measure
from evals.tables import Section, Table
from evals.view import EpisodeView, default_view


def suite_results(suite: Suite, run: RunData, section: Section) -> list[Table]:
    """The tables of one section, each suite's from its own part of the run.

    Raises:
        SuiteError: a suite fails on the run's rows.
    """
    found = list[Table]()
    with run.intervals():
        for part in suite.parts:
            with _named(part, f"make its {section}"):
                own = part.results(run.of(part.name), section)
                found += [dataclasses.replace(table, section=section) for table in own]
                if section != "scores":
                    continue
                curves = difficulty_curves(part, run)
                if curves:
                    found.append(difficulty_table(part.name, part.title or part.name, curves))
    return found


def suite_figures(suite: Suite, run: RunData) -> list[Figure]:
    """The figures of each part, from its own part of the run.

    Raises:
        SuiteError: a suite fails on the run's rows.
    """
    found = list[Figure]()
    with run.intervals():
        for part in suite.parts:
            with _named(part, "draw its figures"):
                found += part.figures(run.of(part.name))
                curves = difficulty_curves(part, run)
                if curves:
                    found.append(difficulty_figure(part.name, part.title or part.name, curves))
    return found


def suite_measures(part: Suite, run: RunData, player: str) -> list[Measure]:
    """What one suite of a run offers to compare, of one player.

    Args:
        part: The suite.
        run: The suite's part of the run.
        player: Whose episodes.

    Raises:
        SuiteError: the suite fails on the run's rows.
    """
    with _named(part, "take its measures"):
        return [*part.measures(run, player)]


def difficulty_curves(part: Suite, run: RunData) -> list[Curve]:
    """Success over difficulty, where the part was played at several levels that get harder."""
    return curves_of(run.of(part.name), DifficultyRules(part.difficulty_of, part.variant_of, part.known_success))


@contextlib.contextmanager
def _named(part: Suite, act: str) -> Iterator[None]:
    """Say which suite fails at what; a ledger that changes or is damaged meanwhile is no fault of the suite."""
    try:
        yield
    except (LedgerChangedError, LedgerDamagedError):
        raise
    except (Exception, SystemExit) as error:  # a suite, or the author of a ledger's rows, may be anybody
        raise SuiteError(part.name, act, error) from error


def reason_of(error: Exception, public: bool) -> str:
    """An error in one line; for a page that others read its type only.

    The settings of a run may be anybody's and name any file of this machine, and a message may quote what is in it.
    """
    kind = type(error).__name__
    return kind if public else f"{kind}: {error}"


def suite_view(part: Suite, row: Mapping[str, Any], public: bool = False) -> EpisodeView:
    """A suite's view of an episode; the plain one, with the reason why, where the suite cannot rebuild the game.

    Args:
        part: Whose episode it is.
        row: With ``turns``; the suite's own columns under their short names.
        public: Whether it is for a page that others read (``reason_of``).
    """
    try:
        return part.view(row)
    except Exception as error:  # a domain that is not on this machine, or a row that the suite no longer understands
        view = default_view(row)
        reason = f"without the help of the suite {part.name}: {reason_of(error, public)}"
        return dataclasses.replace(view, facts={"shown": reason, **view.facts})
