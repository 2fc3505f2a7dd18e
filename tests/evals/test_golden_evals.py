"""What the rooms of evals say to the questions on record in ``tests/golden/evals_*.txt``."""

import argparse
import asyncio
import contextlib
import copy
import dataclasses
import datetime
import importlib
import importlib.metadata
import io
import itertools
import json
import logging
import math
import pickle
import re
import sys
from array import array
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from annotated_types import Ge
from matplotlib import rc_context
from rich.console import Console
from starlette.requests import Request
from starlette.responses import Response

from envs import plugins, printable
from envs.picture import Picture
from evals import testing, view
from evals.analysis.compare import Side
from evals.conversation import PlayedTurn, Record
from evals.figures import Figure
from evals.ledger.parts import write_part
from evals.ledger.records import ledger_schema, plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.live.lines import Began, PlayedLine
from evals.live.running import RunningEpisode
from evals.questions import Question, QuestionSuite
from evals.reference import figures as of_papers
from evals.reference import published
from evals.reference.comparison import RunCell
from evals.replies.clauses import Event, events_of
from evals.replies.options import Options
from evals.replies.reader import Choices, read
from evals.replies.reasoning import separate_reasoning
from evals.replies.words import plain_words
from evals.report import build, draw, heat_map, kinds, page, panels, terminal
from evals.report.joint import Report, RunReport
from evals.report.panels import PLAIN
from evals.results import boards
from evals.results.entries import Entry, Reader, Score, outline_of
from evals.results.overview import Overview
from evals.sessions import session
from evals.shortcut_search import learner
from evals.shortcut_search import search as shortcut_search
from evals.shortcut_search.classes import FeatureClass
from evals.site import pages
from evals.stats import anytime
from evals.stats.intervals import Estimate
from evals.stopping.outcomes import Outcomes
from evals.study import variance
from evals.study.conditions import conditions_of
from evals.study.effects import measured
from evals.study.split import Pair, Played
from evals.suite import Needs, Suite
from evals.suites.bundle import Bundle
from evals.summary.difficulty import DifficultyRules
from evals.summary.failures import Causes
from evals.summary.paired import Effect, Observation, column_measure
from evals.summary.reply_health import ReplyHealth
from evals.tables import Table, format_cell
from evals.training import command, gymnasium_env, gymnasium_text, play, reward
from evals.types import Episode, OptionFeatures, Outcome, PlayerError, Reply, Turn, message, stable_seed
from evals.viewer import cache, filters, live, server, study
from evals.viewer import results as viewer_results
from evals.viewer.episode import Episodes
from evals.viewer.runs import ViewedRun
from evals.viewer.search import TextSearches
from tests.golden import check_said, plain

_ROOMS = {
    "statistics": "stats.intervals stats.anytime stats.power stats.reliability stopping.rules summary.independent "
    "summary.paired tables",
    "summaries": "summary.cells summary.cost summary.difficulty summary.failures summary.flat summary.overview "
    "summary.reliability summary.reply_health summary.status summary.usage",
    "studies": "study.conditions study.effects study.split study.variance stopping.order stopping.outcomes",
    "results": "results.boards results.differences results.entries results.overview results.ticks",
    "reports": "report.build report.episodes report.joint report.latex report.page report.parts report.terminal figures",
    "drawings": "report.draw report.heat_map report.kinds report.panels figures",
    "shortcuts": "shortcut_search.classes shortcut_search.games shortcut_search.learner shortcut_search.record "
    "shortcut_search.search sessions.session questions suite suite_results",
    "training": "training.command training.games training.gymnasium_env training.gymnasium_text training.nemo_gym_files "
    "training.play training.reward",
    "replies": "replies.clauses replies.clause_parts replies.conclusion replies.forms replies.options replies.reader "
    "replies.reasoning replies.sentences replies.ticks replies.words",
    "viewers": "viewer.cache viewer.difficulty viewer.episode viewer.filters viewer.live viewer.runs viewer.search "
    "viewer.server viewer.study viewer.schema.typescript",
    "sites": "site.games site.pages site.parts site.pictures",
    "tellings": "presentation.fields presentation.history presentation.order presentation.parts presentation.pictures "
    "presentation.settings sealed players serving types view conversation chat_json testing",
    "papers": "reference.comparison reference.figures reference.models reference.trend",
}
ROOMS = {room: [importlib.import_module(f"evals.{name}") for name in names.split()] for room, names in _ROOMS.items()}
ROOMS["tellings"].append(printable)


class Lines(list):
    """An answer of several lines."""


def shown(value):
    """An answer in one line, tables in several."""
    match value:
        case Table():
            lines = [f"{value.name} | {value.title} | {value.section}{' *' * value.headline} {' '.join(value.brief)}"]
            rows = [value.columns, *(map(format_cell, row) for row in value.rows)]
            return "\n".join(
                [*lines, *("  " + " | ".join(row) for row in rows), *(f"  - {each}" for each in value.notes)]
            )
        case Lines():
            return "\n".join(value)
        case Estimate():
            return f"{value.mean:.6g} [{value.low:.6g}, {value.high:.6g}] {value.n}"
        case np.ndarray() | np.generic():
            return shown(value.tolist())
        case frozenset() | set():
            return f"{{{', '.join(sorted(map(shown, value)))}}}"
        case dict():
            return "{" + ", ".join(f"{shown(key)}: {shown(each)}" for key, each in value.items()) + "}"
        case list() | tuple():
            return f"({', '.join(map(shown, value))})"
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            told = [f"{each.name}={shown(getattr(value, each.name))}" for each in dataclasses.fields(value)]
            return f"{type(value).__name__}({', '.join(told)})"
        case float():
            return f"{0 if abs(value) < 1e-12 else value:.6g}"
        case _ if hasattr(value, "__next__"):
            return shown(list(value))
    return plain(value)


FINISHES = {"C": "length", "T": "content_filter", "R": "refusal"}


def run(*lines, backwards=False, **more):
    """A run of lines ``player suite/task level marks [mode]``: a mark for each repeat, games parted by commas.

    W: won, L: lost, H: lost with half the score, F: failed, -: not played; C, T, R, U, E: lost with a reply that was cut
    off, filtered, refused, not read, or is empty. Usage differs from row to row.
    """
    plan, records = [], []
    for line in lines:
        player, task, level, marks, mode = (*line.split(), "cot")[:5]
        suite, _, task = task.rpartition("/")
        for index, repeats in enumerate(marks.split(",")):
            for repeat, mark in enumerate(repeats):
                number = len(plan) + 1
                plan.append(
                    Episode(
                        suite or "toy", task, level, mode, index, repeat, 7 * index, "", 9, 2, 50 * number, "", player
                    )
                )
                if mark != "-":
                    records.append(_record(plan[-1], mark, number))
    rows = records_to_table(records[::-1] if backwards else records, {})
    return dataclasses.replace(RunData.of_tables(plan_to_table(plan), rows, more.pop("settings", {})), **more)


def _record(episode, mark, number):
    seconds = number / 4
    if mark == "F":
        return Record(episode, None, f"Broken: after {number} s", (), seconds, ("model", "endpoint")[number % 2])
    turns = []
    for place, kind in enumerate(("", mark)):
        reply = Reply(
            "  " if kind == "E" else f"reply {number}",
            FINISHES.get(kind, "stop"),
            100 * number,
            10 * number + place,
            number,
            reasoning_tokens=3 * number,
            cost=number / 8,
        )
        turn = Turn(episode, place, (message("user", "?"),))
        turns.append(PlayedTurn(turn, reply, None if kind in tuple("UECTR") else "act", "rule"))
    outcome = Outcome(mark == "W", 3, 0.5 if mark == "H" else None)
    return Record(episode, outcome, "", tuple(turns), seconds)


def with_column(found, name, value):
    """A run in whose rows one column is the same everywhere."""
    rows = found.episodes(None)
    place = rows.column_names.index(name)
    return RunData.of_tables(found.plan, rows.set_column(place, name, pa.array([value] * len(rows), rows[name].type)))


def seen(*lines):
    """Observations of lines ``cell game unit value``."""
    split = [line.split() for line in lines]
    return [Observation((cell,), game, unit, float(value)) for cell, game, unit, value in split]


def at_every_look(estimate, *given):
    with anytime.at_every_look():
        return estimate(*given)


def many_causes(*failed):
    causes = Causes()
    for error, episode, kind in failed:
        causes.add(error, episode, kind)
    return causes


def tables_of(name, rows):
    return Table(name, "", ("a", "b", "c", "won.by/m", "e"), tuple(rows), headline=True).to_json()


@dataclass(frozen=True)
class Toy(Suite):
    """Shows what others played: success, and a measure that is no share."""

    name: str = "toy"

    shortcuts = {"sly": "guesses", "sharp": "looks"}  # noqa: RUF012

    def plan(self):
        return ()

    async def play(self, episode, conversation):
        raise NotImplementedError

    def measures(self, run, player):
        return [column_measure(run, player), column_measure(run, player, "seconds")]


class Timed(Toy):
    def measures(self, run, player):
        return [column_measure(run, player, "seconds")]


class Polite(Toy):
    title = "Polite games"

    def for_people(self, turn):
        return (message("user", "Please, ", turn.chat[0].parts[0]),)


class Quitting(Toy):
    def plan(self):
        sys.exit("enough")


class Quick(Toy):
    def measures(self, run, player):
        return [dataclasses.replace(column_measure(run, player, "seconds"), better="lower")]


class Silent(Toy):
    def measures(self, run, player):
        return []


TWO = Bundle("two", (Toy(), Toy("x")))


def side(marks, player="m", **settings):
    found = run(*([f"{player} A 1 {marks}"] if isinstance(marks, str) else marks), settings=settings)
    return Side("A", player, found, Toy(), " ".join(settings.get("suite", {}).values()))


def studied(factors, *played):
    """Conditions: of each combination of values what was played."""
    values = itertools.product(*factors.values())
    return conditions_of([side(one, suite=dict(zip(factors, each))) for each, one in zip(values, played)])  # noqa: B905


def with_measures(found, *names):
    """Conditions and what they measured, as the functions of a study take them, for each of some measures."""
    return [(found, measured(found), name) for name in names]


def looked(rule, found, player="m", other=None, parts=1):
    """What a rule says of a run after each of some parts of its rows."""
    outcomes = Outcomes(rule, found.plan, player, other)
    rows = found.episodes()
    states = []
    for part in range(parts):
        outcomes.add(rows.slice(part * len(rows) // parts, len(rows) // parts))
        states.append(outcomes.look())
    return states


def overview_of(*runs, suite=TWO, titles=None):
    """An overview of runs ``(name, lines, settings)``."""
    parts, outlines = [], []
    for name, lines, settings in runs:
        found = run(*lines, settings=settings)
        parts.append(Reader().read(name, found, suite, found.plan, with_tables=False))
        outlines.append(outline_of(name, found.plan, settings, suite))
    return Overview(parts, outlines, titles or {"toy": "Toys"})


def entry_of(about, reference=""):
    """A player's part of a board, whose games are about some tasks, levels and modes."""
    score = Score("success", Estimate(0.25, 0.125, 0.5, 4), array("d"), ())
    counts = {"planned": 4, "done": 3, "failed": 1, "health": ReplyHealth(), "cost": 0.0, "seconds": 0.0}
    return Entry("m", "kidgym", "r", reference, reference == "sly", "", about, [score], stopping=(), **counts)


EASY = {"task": "CL", "level": "1", "mode": "zero_shot"}


def cells(player, measure, *played):
    """Cells of a run, as a suite tells them: ``(cell, values)``, two observations a game."""
    return [
        RunCell(player, measure, cell, values, [number // 2 for number in range(len(values))])
        for cell, values in played
    ]


def small_paper(**printed):
    """A paper of some models (underscores stand for dashes), each with its success in the tasks CL and SE or in one."""
    told = []
    for row, values in printed.items():
        for task, value in zip(("CL", "SE"), values, strict=False):
            told.append(of_papers.Figure("T", row.replace("_", "-"), "success", {**EASY, "task": task}, value))
    return of_papers.Paper("kidgym", "paper", {}, of_papers.Conditions(), tuple(told))


BOTH_TASKS = cells("m-9b", "success", (EASY, [1, 0]), ({**EASY, "task": "SE"}, [1, 1]))


def paper_rows(**printed):
    """The rows of a small paper beside a board that has two of its tasks."""
    about = {"task": ["CL", "SE"], "level": ["1"], "mode": ["zero_shot"]}
    board = boards.Board("kidgym", "", "", ["success"], [boards.Row(entry_of(about), "")], [])
    with mock.patch.object(boards, "published", lambda suite: small_paper(**printed)):
        return boards.paper_table(board).rows


def standings(*lines, **more):
    """Who stands where on the first board of a run."""
    found = run(*lines, **more)
    part = Reader().read("r", found, Toy(), found.plan, with_tables=False)
    return [(row.entry.player, row.standing, row.notes) for row in boards.boards_of(part.entries)[0].rows]


def table(*rows, columns="player task success", **more):
    return Table("t", "Table", tuple(columns.split()), rows, **more)


def printed(shown_table, width=40, brief=False):
    """A table as lines of a terminal."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(terminal.LaidOut(shown_table, brief))
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def panels_of(figure):
    """What all panels of a figure share."""
    canvas, axes = panels.grid_of(figure, PLAIN, 2.0, 1.0)
    told = []
    for each, (title, members) in zip(axes, figure.panels.items(), strict=True):
        for series in members:
            each.plot(series.x, series.y, label=series.name)
        panels.finish(each, figure, title)
        grid = [axis.get_gridlines()[0].get_visible() for axis in (each.xaxis, each.yaxis)]
        told.append(
            (each.get_title(), each.get_xlabel(), each.get_ylabel(), each.get_ylim(), grid, each.get_axisbelow())
        )
    panels.add_legend(canvas, axes)
    return told, [text.get_text() for legend in canvas.legends for text in legend.get_texts()]


def sketched(kind, *series, **more):
    """How large a figure is, what its panels span, and how thick and strong its marks are."""
    figure = drawn(kind, *series, x_label="across", y_label="up", **more)
    told = []
    with rc_context(draw._STYLE):
        canvas = (kinds.radar if kind == "radar" else draw._KINDS[kind])(figure, PLAIN)
        for each in canvas.axes[: len(figure.panels)]:
            grid = [
                bool(axis.get_gridlines()) and axis.get_gridlines()[0].get_visible()
                for axis in (each.xaxis, each.yaxis)
            ]
            ticks = [axis.get_major_ticks()[0].tick1line.get_markersize() for axis in (each.xaxis, each.yaxis)]
            turned = [label.get_rotation() for label in each.get_xticklabels()[:1]]
            told.append(
                (each.get_title(), each.get_xlabel(), each.get_ylabel(), each.get_xlim(), each.get_ylim(), grid)
            )
            told.append((ticks, turned, each.get_axisbelow(), each.axison))
            told += [
                (line.get_markersize(), line.get_linewidth(), line.get_alpha(), line.zorder) for line in each.lines
            ]
            told += [(line.get_xdata(), line.get_ydata(), line.get_linestyle()) for line in each.lines]
            told += [(marks.get_linewidths(), marks.get_alpha(), marks.zorder) for marks in each.collections]
            told += [marks.get_offsets().tolist() for marks in each.collections]
            told += [(patch.get_alpha(), patch.get_path().vertices.tolist()) for patch in each.patches]
            told += [(text.get_text(), text.get_position()) for text in each.texts]
            told += [
                (label.get_text(), label.get_horizontalalignment(), label.get_fontsize())
                for label in [*each.get_xticklabels(), *each.get_yticklabels()]
            ]
            told.append(
                (each.get_theta_offset(), each.get_theta_direction())
                if kind == "radar"
                else len(each.get_shared_y_axes().get_siblings(each))
            )
    legends = [[text.get_text() for text in legend.get_texts()] for legend in canvas.legends]
    return canvas.get_size_inches(), legends, told


def mapped(figure):
    """A heat map's size, and its panels' titles, labels and ticks."""
    canvas = heat_map.heat_map(figure, PLAIN)
    told = []
    for each in canvas.axes:
        ticks = [[label.get_text() for label in axis.get_ticklabels()] for axis in (each.xaxis, each.yaxis)]
        turned = [label.get_rotation() for label in each.xaxis.get_ticklabels()[:1]]
        told.append((each.get_title(), each.get_xlabel(), ticks, turned, each.spines["top"].get_visible()))
    return canvas.get_size_inches(), canvas.get_supylabel(), told


def figure_on_page(figure):
    def drawn_as(figure, form, look=PLAIN):
        return f'<svg width="100.5pt" height="50pt">{form} {look.dark}'.encode()

    with mock.patch.object(page, "draw", drawn_as):
        return page.figure_parts(figure)


def files_of(figure):
    with mock.patch.object(build, "draw", lambda figure, form, look: f"{form} {look.width}".encode()):
        return build.figure_files([figure], panels.Look(width="column"))


def paged(made):
    """The page of a report, section by section, with figures that are not drawn."""
    with mock.patch.object(page, "draw", lambda *given: b'<svg width="9pt" height="9pt">'):
        found = build.page_of(made)
    names = ("lines", "tables", "figures", "more", "episodes", "prompts", "texts")
    told = [found.title, found.status]
    for section in found.sections:
        parts = [
            [
                each["title"] if isinstance(each, dict) else getattr(each, "ending", getattr(each, "mode", each))
                for each in part
            ]
            for part in (getattr(section, name) for name in names)
        ]
        told.append((section.title, *parts))
    return told


def report(*runs, suite=TWO, tables=(), status=()):
    """A report of runs ``(name, lines)``; each with the same tables and status."""
    return Report(
        [RunReport(name, run(*lines, sessions=[{"raycade": "1"}]), suite, tables, status) for name, lines in runs]
    )


def drawn(kind, *series, **more):
    return Figure("f", "Figure", kind, tuple(series), **more)


def option(action, **values):
    return OptionFeatures(action, {name.replace("_", " ").replace("  ", ": "): value for name, value in values.items()})


def in_file(text, then):
    """What is made of a file that holds a text."""
    path = Path("file")
    if text:
        path.write_text(text.replace("|", "\n"))
    return then(path)


@dataclass(frozen=True)
class Guess(QuestionSuite):
    name = "guess"
    later: bool = False

    def questions(self):
        return (
            [Question("Later?", "yes")]
            if self.later
            else [
                Question("Capital of Peru?", "Lima", "geography", "2", ("Lima", "Rome")),
                Question("-1.5 times 2?", "-3."),
                Question("Which sign?", "<"),
            ]
        )


@dataclass(frozen=True)
class Featured(QuestionSuite):
    """Asks which of some numbers is the least, twice."""

    name: str = "featured"
    broken: bool = False

    def questions(self):
        return [Question(str(n), "1", task, options=tuple("312"[n % 2 :])) for n, task in enumerate("babab")]

    async def play(self, episode, conversation):
        if self.broken:
            raise PlayerError("no")
        options = self.questions()[episode.index].options
        replies = []
        for _ in range(2):
            known = {"text: before": "".join(replies)}
            features = [OptionFeatures(each, {"color: x": float(each) / 4, **known}) for each in options]
            played = await conversation.ask(
                (message("user", "?"),),
                options=options,
                oracle=lambda: "1",
                features=lambda features=features: features,
            )
            replies.append(played.reply.text)
        return Outcome(replies == ["1", "1"], 2, replies.count("1") / 2)


class Failing(Toy):
    """Fails at whatever is made of its rows."""

    def results(self, run, section):
        raise KeyError("results")

    def figures(self, run):
        raise ValueError("figures")

    def view(self, row):
        raise ValueError("view")


def turn_of(**more):
    return Turn(Guess().plan()[0], 0, (message("user", "?"),), ("Lima", "Rome", "Oslo"), **more)


LESSONS = [
    [option("a", color__x=0.5), option("b", color__x=0.25)],
    [option("a", color__x=0.25), option("b", color__x=0.25, color__y=True), option("c", color__x=0.25)],
]


class Trees:
    """Stands for scikit-learn's trees and columns: notes what it is told, and finds options with a small x likely."""

    def __init__(self, **settings):
        self.told = [settings]

    def fit(self, rows, targets, sample_weight):
        self.told.append((rows, targets, sample_weight))

    def predict_proba(self, rows):
        return np.array([[0.0, 1 - row.get("color: x", 0.0)] for row in rows])

    def fit_transform(self, rows):
        return rows

    transform = fit_transform


SKLEARN = {
    "sklearn": SimpleNamespace(),
    "sklearn.ensemble": SimpleNamespace(HistGradientBoostingClassifier=Trees),
    "sklearn.feature_extraction": SimpleNamespace(DictVectorizer=Trees),
}


def searched():
    with mock.patch.dict(sys.modules, SKLEARN):
        return list(shortcut_search.search(Featured(), Featured()))


def chosen_after(turns, good, asked, without=(), seed=0):
    """What a learner tells its trees, and what it chooses after lessons."""
    with mock.patch.dict(sys.modules, SKLEARN):
        player = learner.Learner(FeatureClass("all", without=frozenset(without)), seed)
        player.learn(turns, good)
        return player._trees.told, player.choose(asked)


def answered(*replies):
    """What a session says step by step."""

    async def played():
        current = session.Session(Guess(), Guess().plan()[0])
        told = []
        for reply in (None, *replies):
            try:
                if reply is None:
                    turn = await current.begin()
                elif isinstance(reply, Exception):
                    turn = await current.fail(reply)
                else:
                    turn = await current.answer(Reply(reply))
            except session.SessionError as error:
                turn = str(error)
            record = current.record
            told.append(
                (
                    turn and getattr(turn, "number", turn),
                    list(current.played),
                    record and (record.outcome, record.error),
                )
            )
        await current.close()
        return told

    return asyncio.run(played())


@dataclass(frozen=True)
class Drawing(Picture):
    """A picture of one color."""

    wide: int = 3

    kind = "one color"

    @property
    def size(self):
        return self.wide, 2

    def render(self):
        return np.full((2, self.wide, 3), 7, np.uint8)

    def twin(self, detail):
        return f"one color, {self.wide} wide, as {detail}"


@dataclass(frozen=True)
class Hunt(Suite):
    """Find a hidden number; each wrong guess takes a step, and the first turn tells no games apart."""

    episodes: Annotated[int, Ge(0)] = 2
    highest: int = 3
    labeled: bool = False
    broken: bool = False

    name = "hunt"

    def plan(self):
        return [
            Episode(self.name, "find", str(self.highest), mode, index, repeat, seed, "", 3)
            for index, seed in enumerate(self.seeds_of_games())
            for mode in ("plain", "told")
            for repeat in range(2)
        ]

    def seeds_of_games(self):
        return range(self.episodes)

    async def play(self, episode, conversation):
        hidden = episode.seed % self.highest
        chat = (message("user", f"Which number below {self.highest}?", *self.pictures()),)
        if self.broken and conversation.player.__class__.__name__ == "_Waiting":
            raise KeyError("broken")
        numbers = tuple(map(str, range(self.highest)))
        for step in range(1, 4):
            offered = {"labels": numbers} if self.labeled else {"options": numbers}
            left = self.left(hidden, step)
            played = await conversation.ask(chat, oracle=lambda: str(hidden), remaining=left, **offered)
            played.action = played.reply.text if played.reply.text in numbers else None
            if played.action == str(hidden):
                return Outcome(True, step)
            chat = (
                *chat,
                message("assistant", played.reply.text),
                message("user", *self.answer(played.action, hidden)),
            )
        return Outcome(False, 3, 0.25)

    def answer(self, action, hidden):
        return ["No number." if action is None else "More." if int(action) < hidden else "Less."]

    def pictures(self):
        return ()

    def left(self, hidden, step):
        return lambda action: 1.0 if action in (None, str(hidden)) else math.inf if step == 3 else 2.0


@dataclass(frozen=True)
class Drawn(Hunt):
    seeds: str = "open"

    name = "drawn"

    def seeds_of_games(self):
        return [stable_seed(self.seeds, index) for index in range(self.episodes)]


class Shown(Hunt):
    """Shows a picture, a larger one later."""

    name = "shown"

    @property
    def needs(self):
        return Needs(pictures=True)

    def answer(self, action, hidden):
        return ["Look:", Drawing(self.highest - 4)]

    def pictures(self):
        return (Drawing(),)


def trained(games_of, texts, most=2):
    """Replies to games one after the other: what is asked, and what a reply is worth."""

    async def told():
        playing, said = play.TrainingPlay(games_of, 3), []
        for _ in range(most):
            turn = await playing.begin()
            said.append(f"{turn.episode.seed % 97} {turn.chat[-1].parts[0]}")
            while texts and turn is not None:
                step = await playing.answer(texts.pop(0))
                turn = step.turn
                said.append(f"{step.reward:g} {play.ending_of(step) or turn.chat[-1].parts[0]}")
        await playing.close()
        return [*said, *(f"{each} is not closed" for each in asyncio.all_tasks() - {asyncio.current_task()})]

    return asyncio.run(told())


async def given_up(games_of):
    """Whether a turn waits after a game was begun, given up for the next one, and closed."""
    playing = play.TrainingPlay(games_of)
    waits = [playing.turn]
    first = await playing.begin()
    session_of_first = playing._session
    second = await playing.begin()
    waits += [first is second, session_of_first.turn, playing.turn is second]
    await playing.close()
    return [*waits, playing.turn, session_of_first._play.cancelled() or session_of_first._play.done()]


def rewarded(kind, action, ended, remaining):
    """The reward of a reply, and the total, where perfect play takes so many steps."""

    async def told():
        lost = {"worse": remaining and remaining + 2, "lost": math.inf}
        left = None if remaining is None else lambda each: lost.get(each, remaining)
        turn = Turn(Hunt().plan()[0], 0, (), remaining=left)
        try:
            rewards = reward.Rewards(kind, turn)
        except reward.NoRewardError:
            return "none"
        await rewards.asked(turn)
        following = None if ended else Turn(turn.episode, 1, (), remaining=lambda each: 1.0)
        record = Record(turn.episode, Outcome(False, 3, 0.75), "", (), 1.0) if ended else None
        found = await rewards.answered(PlayedTurn(turn, Reply(""), action), following, record)
        return found, rewards.total

    return asyncio.run(told())


def command_options(*words):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    options = parser.parse_args(words)
    options.action = options.action.__name__
    return options


def command_said(*words):
    parser, out, err = argparse.ArgumentParser(), io.StringIO(), io.StringIO()
    command.add_arguments(parser)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = command.main(parser.parse_args(words))
    return code, out.getvalue(), err.getvalue()


def gym_steps(actions, suite="hunt", **settings):
    """What an environment says to actions."""
    with contextlib.closing(gymnasium_env.SuiteEnv(suite, **settings)) as env:
        observation, info = env.reset(seed=3)
        said = [observation, {**info, "chat": len(info["chat"])}, env.render()]
        for action in actions:
            observation, *rest, info = env.step(action)
            said += [observation, rest, {**info, "chat": len(info.get("chat", ()))}]
            if rest[1]:
                break
    return said


def shared_texts(most, *texts):
    """Texts in the shared memory of several environments, and what is read from it after one has changed."""
    space = gymnasium_text.AnyText(most)
    memory = gymnasium_text._create(space, len(texts))
    for place, text in enumerate(texts):
        gymnasium_text._write(space, place, text, memory)
    seen = gymnasium_text._read(space, memory, len(texts))
    gymnasium_text._write(space, 0, "new", memory)
    return list(seen), seen[1:], len(seen), copy.deepcopy(seen)


BUTTONS = Choices(
    ("press the red button", "press the blue button", "press the yellow button", "do nothing"),
    tuple("ABCD"),
    ("bird", "lamp"),
    "the door",
    first_of_list=True,
)
TREES = Choices(
    ("Oak", "Red Oak", "Maple", "Birch", "Leaf Shape", "Bark Texture", "Complete Ring Count"),
    tuple("ABCDEFG"),
    ("tree", "test"),
    stated="names",
)
NUMBERS = Choices(("2 objects", "3 objects", "4 objects"), ("1", "2", "3"), stated="anything")
YES = Choices(("yes", "no"), ("A", "B"), stated="anything")
MOVES = Choices(
    (
        "move left",
        "move right",
        "move up",
        "pick up the key in slot 1",
        "pick up the crowbar in slot 2",
        "unlock the door",
    ),
    tuple("ABCDEF"),
)


SHIPS = Choices(
    ("red kite", "old red kite", "symmetric", "asymmetric star", "bird in slot B", "B to II", "kite in slot A"),
    tuple("ABCDEFG"),
    ("ship",),
    stated="names",
)
DIGITS = Choices(("1", "2", "3"), ("1", "2", "3"))
HALVES = Choices(("2", "lamp", "3", "slot 4"), tuple("ABCD"))


def readings(choices, *replies, cut_off=False):
    """How replies are read: a line for each, with what its clauses say of options."""
    lines = []
    for reply in replies:
        found = read(reply, choices, cut_off)
        events = []
        for event in events_of(reply, Options(choices.texts, choices.labels, choices.nouns)):
            events.append(f"{event.kind}{''.join(map(str, sorted(event.options)))}@{event.sentence}")
        lines.append(f"{'-' if found.option is None else found.option} {found.rule} | {' '.join(events)} | {reply!r}")
    return Lines(lines)


def taken(choices):
    return Options(choices.texts, choices.labels, choices.nouns)


def told_by(*events):
    """Events ``kind options sentence``."""
    split = [event.split() for event in events]
    return [Event(kind, frozenset(map(int, named.strip("-"))), int(sentence)) for kind, named, sentence in split]


def separated(text, reasoning):
    reply = separate_reasoning(Reply(text, reasoning=reasoning))
    return reply.text, reply.reasoning


def found_in(choices, text):
    return Options(choices.texts, choices.labels).mentions(plain_words(text))


def asked(host="localhost", path="/", query="", **headers):
    """A request as the server gets it."""
    named = [("host", host), *((name.replace("_", "-"), value) for name, value in headers.items())]
    scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode()}
    return Request({**scope, "headers": [(name.encode(), value.encode()) for name, value in named if value]})


def answer_of(response):
    """An answer's status, the headers that it was given, and its content."""
    kept = {name: value for name, value in response.headers.items() if name not in ("content-length", "etag")}
    return response.status_code, kept, response.body


def told_again(make, version=None, **headers):
    """What a browser gets that asks twice, the second time with the tag of the first answer."""
    made = []
    answer = cache.kept(lambda request: (made.append(1), Response(make()))[1], version and (lambda request: version()))
    first = answer(asked())
    tag = first.headers["etag"]
    again = answer(asked(**{"if_none_match": f'W/"other", {tag}', **headers}))
    return first.status_code, tag[:3], len(tag), again.status_code, again.headers.get("etag") == tag, len(made)


def living(turns, began=(), **more):
    """Running episodes as the page lists them: of one run whose log tells of some turns ``(number, reply, pictures)``."""
    begin = Began("e1", "toy", "A", "1", "cot", 2, 0, "m", 9, 5.0, *began)
    lines = [
        PlayedLine(
            "e1", number, 7.5 + number, "?", pictures, reply, "think  hard", None, "rule", "stop", 3, 4, 0.5, 0.25
        )
        for number, reply, pictures in turns
    ]
    episode = RunningEpisode(begin, lines)
    found = SimpleNamespace(
        running=SimpleNamespace(episodes={"e1": episode}, numbers=more.get("numbers")), trouble=more.get("trouble", "")
    )
    seen = ViewedRun("r", Path("r"), Toy, None, writer=lambda: "at work")
    index = SimpleNamespace(
        runs=[seen, dataclasses.replace(seen, name="done")],
        progress=lambda: (
            [{"run": "r", "cost": cost, "task": "A"} for cost in (0.5, 0.25)] + [{"run": "o", "cost": 1.0}]
        ),
        is_unfinished=lambda run: run.name == "r",
        attempts=lambda run, names: more.get("attempts", {}),
    )
    shown_runs = live.LiveRuns(index)
    shown_runs._log = lambda run: found
    return shown_runs, seen


def row_of(mark="W", **more):
    """A row of the ledger, with its turns."""
    found = run(f"m A 1 {mark}")
    return {**found.find(found.plan["episode_id"].to_pylist())[0], **more}


def chosen_rows(query):
    """The condition that an address stands for."""
    return filters.filter_of(pair.split("=") for pair in query.split()).clause(
        lambda name: {"calm": 3}.get(name, -1), 5
    )


def step(decoded="act", best=None, regret=None, lost=False, **more):
    return view.StepView((), "reply", "", decoded, "rule", best=best, regret=regret, lost=lost, **more)


def part_of(*rows, replaces=(), name="part-000001-a.parquet"):
    """A part of a ledger on disk."""
    folder = Path("r/episodes")
    folder.mkdir(parents=True, exist_ok=True)
    found = run(*rows)
    table = pa.Table.from_pylist(found.find(found.plan["episode_id"].to_pylist()), ledger_schema({}))
    (folder / name).write_bytes(write_part([table], table.schema, replaces))
    return folder / name


PAIRS = [
    Pair((task, "1"), number, Played(won, readable), Played(in_words, True))
    for number, (task, won, readable, in_words) in enumerate(
        [("A", False, True, True), ("A", False, False, True), ("A", True, True, False), ("B", False, True, False)]
    )
]


def effects_of(factor, value, base, p):
    return Effect((factor, value, base), 0.5, 0.25, Estimate(0.25, math.nan, 0.5, 8), p, 4, 0)


def guarded(request, token):
    """What the guard lets through, or says instead."""

    async def let_in(request):
        return Response("in")

    response = asyncio.run(server._guard(token, "raycade", {"localhost"})(request, let_in))
    own = {
        name: value for name, value in response.headers.items() if name in ("location", "set-cookie", "cache-control")
    }
    return response.status_code, own, response.body, sum(name in response.headers for name in server.HEADERS)


def study_page(*runs):
    """The page of a study of runs ``(name, lines, settings of the suite)``, and the tags that it gives."""
    tagged, seen = [], []
    for name, lines, chosen in runs:
        found = run(*lines, settings={"suite": chosen})
        seen.append(ViewedRun(name, Path(name), Toy, lambda found=found: found, parts={name: 1}))
    index = SimpleNamespace(runs=seen, set_tags=lambda *given: tagged.append(given))
    return study.StudyPage(index), tagged, index


def studied_page(baseline, *runs):
    made, tagged, _ = study_page(*runs)
    before = made._trouble
    made.refresh()
    return before, made._known(asked()).body, json.loads(made._study(asked(query=f"baseline={baseline}")).body), tagged


def test_a_study_whose_runs_have_grown_is_computed_anew():
    page, _, index = study_page(("a", ("m A 1 W,L",), {"x": 1}), ("b", ("m A 1 L,L",), {"x": 2}))
    page.refresh()
    computed = []
    with mock.patch.object(page, "_computed", lambda baseline: computed.append(baseline) or {}):
        for _ in range(2):
            page._study(asked(query="baseline="))
        page.refresh()
        page._study(asked(query="baseline="))
        assert computed == [""]
        index.runs[0].parts["another"] = 1
        page.refresh()
        page._study(asked(query="baseline="))
    assert computed == ["", ""]


def opened(marks, *places):
    """Which episodes are read when some are opened one after the other, and how many are kept."""
    path, seen, read = part_of(f"m A 1 {marks}", name="part-000007-a.parquet"), ViewedRun("r", Path("r"), Toy, None), []
    rows = run(f"m A 1 {marks}").plan["episode_id"].to_pylist()
    kept = Episodes(SimpleNamespace(place_of=lambda id: (read.append(id), (path, id))[1]))
    with mock.patch("evals.viewer.episode.EPISODES_KEPT", 3):
        for place in places:
            kept.open(seen, {"episode_id": rows[place], "attempt": 1, "id": place})
    return read, len(kept._opened), [key[0] for key in list(kept._opened)[:1]]


def searching(*texts):
    """Searches through two parts, one of which is gone: their numbers, what they found, and which were dropped."""
    paths = [part_of("m A 1 W,L", name="part-000005-a.parquet"), Path("r/gone.parquet")]
    told = []
    index = SimpleNamespace(
        ledger_parts=lambda: [(path, 10 + number) for number, path in enumerate(paths)],
        ids_of=lambda part, places: [100 * part + int(place) for place in places],
        add_hits=lambda number, ids: told.append((number, ids)),
        drop_hits=lambda number: told.append((number, "dropped")),
    )
    searches = TextSearches(index)
    for text in texts:
        found = searches.of(text)
        if found is not None:
            found.thread.join()
            told.append((text, found.number, sorted(found.parts), found.total, found.running, searches.running))
    searches.close()
    return told


def results_page(*runs):
    """Results of runs of which one cannot be read at first, and of one that grows: what is read when."""
    read, clock = [], [100.0]

    def data_of(found, name):
        read.append(name)
        clock[0] += 2.0
        if found is None:
            raise ValueError("no ledger")
        return found

    seen = [
        ViewedRun(name, Path(name), Toy, lambda found=found, name=name: data_of(found, name), parts={"p1": 0})
        for name, found in runs
    ]
    index = SimpleNamespace(runs=seen, outcomes=lambda *given: [given])
    page_of_results = viewer_results.Results(index, lambda settings: {**settings, "shown": True})
    with mock.patch.object(viewer_results.time, "monotonic", lambda: clock[0]):
        told = [page_of_results.names(), page_of_results.results("")["trouble"], len(page_of_results.difficulty())]
        for name, passed in (("p2", 0.0), ("", 19.9), ("", 0.2), ("", 99.0)):
            clock[0] += passed
            seen[0].parts |= {name: 0} if name else {}
            page_of_results.names()
            told.append(list(read))
        first, second = page_of_results.names()[:2]
        told.append([suite["outcomes"] for suite in page_of_results.compare(first, second)["suites"]])
        told += [
            page_of_results.results("")["settings"],
            [each["title"] for each in page_of_results.results("")["boards"]],
        ]
        seen.pop()
        told.append(page_of_results.names())
    return told


def words_of(html):
    """The words of a page, without its style, script and tags; entities as they stand."""
    body = re.sub(r"<(style|script)\b.*?</\1>", "", html, flags=re.DOTALL)
    told = re.sub(r"\s*(<[^>]*>\s*)+", " | ", body).replace(importlib.metadata.version("raycade"), "VERSION")
    return re.sub(r"\s+", " ", told)


def site_of(*runs, labels=None, suite=TWO):
    """The pages of a site of runs ``(name, lines)``: the words of each by the name of its file."""
    made = pages.Site("Our <site>", "CC0", datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC))
    found = {}
    for name, lines, more in runs:
        data = run(*lines, **more)
        part, of_games = made.read(name, data, suite, data.plan, labels or {})
        made.add(part)
        found |= of_games
    found |= dict(made.pages(list(found)))
    return Lines([f"{name}: {words_of(html)}" for name, html in found.items()])


class Misjudged(Hunt):
    """Says how far a game is from its win, wrongly."""

    def left(self, hidden, step):
        return lambda action: float(self.highest - 3) if action is None else 1.0


def checked(suite, **more):
    """What ``check_suite`` complains of, and whom it lets play what; no other process is started."""
    told, play_one = [], testing._play

    def noted(suite, episode, player):
        told.append(f"{episode.player} {episode.index} {episode.mode} {episode.repeat} {getattr(player, 'finish', '')}")
        return play_one(suite, episode, player)

    with mock.patch.object(testing, "_check_other_process") as elsewhere, mock.patch.object(testing, "_play", noted):
        try:
            testing.check_suite(suite, **more)
        except AssertionError as error:
            return str(error), told[-1:]
    return [*told, elsewhere.call_count]


def planned_elsewhere(said, code=0):
    """What comes of another process that says this."""
    plan, ran = Hunt().plan(), []

    def run_it(command, **more):
        ran.append(
            (command[1], more["env"]["PYTHONHASHSEED"], ":" in more["env"]["PYTHONPATH"], pickle.loads(more["input"]))
        )
        ids = " ".join(episode.id for episode in plan) if said is None else said
        return SimpleNamespace(returncode=code, stdout=ids.encode(), stderr=b"x" * 3000 + b"broken")

    with mock.patch.object(testing.subprocess, "run", run_it):
        try:
            testing._check_other_process(Hunt(), plan)
        except AssertionError as error:
            return str(error)[-12:], len(str(error))
    return ran


class UnspeakableError(Exception):
    def __str__(self):
        raise ValueError("nothing")


def leveled():
    """A run of tasks with levels; ``z`` has one whose difficulty is not known."""
    return run(
        *(
            "m a 2 WL,LF",
            "m a 10 LL,LH",
            "m a 1 WW,-W",
            "m b 10 L",
            "m b 1 W",
            "m b 2 L",
            "m c 1 WL",
            "m c 2 W,W,W,L,W",
        ),
        *("random c 1 L", "random c 2 L", "oracle a 1 WW", "m z 1 W", "m z x W", "m a 1 L,W zero", "m b 2 W zero"),
    )


def rules_of(variant=lambda task: "", known=lambda task, level: {}):
    return DifficultyRules(lambda task, level: float(level) if level.isdecimal() else None, variant, known)


@pytest.mark.parametrize("room", ROOMS)
def test_answers_are_as_on_record(room, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    known = {"hunt": Hunt, "drawn": Drawn, "guess": Guess, "shown": Shown, "bundle": Bundle, "nothing": dict}
    monkeypatch.setattr(plugins, "load", lambda group, name: known[name])
    monkeypatch.setattr(variance, "DRAWS", 40)
    names = {module.__name__.rpartition(".")[2]: module for module in ROOMS[room]}
    check_said(f"evals_{room}", {**globals(), "math": math, "logging": logging, "published": published, **names}, shown)
