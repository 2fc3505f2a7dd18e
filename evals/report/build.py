"""The files of a report: the page, tables as LaTeX, figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from evals.figures import Figure
from evals.report.draw import Format, draw
from evals.report.episodes import Prompt, Shown, select
from evals.report.joint import Report
from evals.report.latex import document, latex, latex_figure
from evals.report.page import Page, Section, figure_parts, table_parts
from evals.report.panels import PLAIN, Look
from evals.report.parts import settings_text, versions_table
from evals.suite import built_in_names
from evals.tables import Table


def page_of(report: Report) -> Page:
    """The page of a report: results, some episodes of each player and prompts, costs, how the runs were made."""
    baselines = report.baselines
    tables, paper = report.tables(), report.paper_tables()
    figures = {figure.name: figure_parts(figure) for figure in report.figures()}
    sections = [
        *_results(report, tables, paper, figures, baselines),
        *_examples(report),
        _performance(tables),
        _made(report),
    ]
    title = "; ".join(one.name for one in report.runs)
    return Page(title, report.status, [section for section in sections if not section.empty])


def _examples(report: Report) -> Iterator[Section]:
    """Episodes and prompts to look at, where there are any."""
    episodes: list[Shown] = []
    prompts: dict[tuple[str, str], Prompt] = {}
    for one in report.runs:
        for part in one.suite.parts:
            selection = select(one.run.of(part.name), part, built_in_names(part))
            episodes += selection.episodes
            prompts |= {(prompt.suite, prompt.mode): prompt for prompt in selection.prompts}
    if episodes:
        lines = ["Of each player some episodes that failed, were cut off, lost and won, the first of their kind."]
        yield Section("Episodes to look at", lines, episodes=episodes)
    if prompts:
        lines = ["The first prompt of one episode of each mode."]
        yield Section("Prompts", lines, prompts=[*prompts.values()])


def _by_suite(tables: Sequence[Table], suites: Mapping[str, str]) -> defaultdict[str | None, list[Table]]:
    """The tables of each suite; under None those of no suite."""
    owned: defaultdict[str | None, list[Table]] = defaultdict(list)
    for table in tables:
        owned[_suite_of(table.name, suites)].append(table)
    return owned


def _results(
    report: Report,
    tables: Sequence[Table],
    paper: Sequence[Table],
    figures: Mapping[str, Mapping[str, Any]],
    baselines: Collection[str],
) -> list[Section]:
    """A section for each suite, then the tables that all have in common: results come first."""
    suites = _suite_titles(report)
    owned = _by_suite([table for table in tables if table.section != "performance"], suites)
    published = _by_suite(paper, suites)
    drawn: defaultdict[str | None, list[Mapping[str, Any]]] = defaultdict(list)
    for name, figure in figures.items():
        drawn[_suite_of(name, suites)].append(figure)
    sections = []
    for suite, title in suites.items():
        results = [table_parts(table, baselines) for table in owned[suite] if table.headline]
        details = [table for table in owned[suite] if not table.headline]
        more = [table_parts(table, baselines) for table in (*published[suite], *details)]
        sections.append(Section(title, tables=results, figures=drawn[suite], more=more))
    common = [table_parts(table) for table in owned[None]]
    return [*sections, Section("Episodes played", tables=common)]


def _suite_titles(report: Report) -> dict[str, str]:
    """What the suites of all runs are called, by their names."""
    titles = {}
    for one in report.runs:
        for part in one.suite.parts:
            titles[part.name] = part.title or part.name
    return titles


def _suite_of(name: str, suites: Collection[str]) -> str | None:
    """The suite whose name a table's or figure's begins with; of several the longest."""
    owners = [suite for suite in suites if name == suite or name.startswith(f"{suite}_")]
    return max(owners, key=len, default=None)


def _performance(tables: Sequence[Table]) -> Section:
    mine = [table for table in tables if table.section == "performance"]
    return Section(
        "Cost and time",
        tables=[table_parts(table) for table in mine if table.headline],
        more=[table_parts(table) for table in mine if not table.headline],
    )


def _made(report: Report) -> Section:
    versions = [versions_table(one.run.sessions, one.name) for one in report.runs]
    texts = [{"title": f"Configuration of {one.name}", "text": settings_text(one.run.settings)} for one in report.runs]
    return Section("How the runs were made", tables=[table_parts(table) for table in versions if table], texts=texts)


def latex_files(report: Report) -> dict[str, str]:
    """A file for each table, those in the papers' layouts first, and a document with all of them."""
    tables = [*report.paper_tables(), *(table for table in report.tables() if table.section == "scores")]
    files = {f"{table.name}.tex": latex(table, report.baselines) for table in tables}
    return {**files, "report.tex": document(tables, "; ".join(one.name for one in report.runs))}


def figure_files(figures: Iterable[Figure], look: Look = PLAIN) -> dict[str, bytes]:
    """Each figure as SVG, PDF and PNG, and as a float with its caption for LaTeX."""
    files: dict[str, bytes] = {}
    for figure in figures:
        files |= {f"{figure.name}.{form}": draw(figure, form, look) for form in get_args(Format)}
        files[f"figure_{figure.name}.tex"] = latex_figure(figure, look.width_of(figure)).encode()
    return files
