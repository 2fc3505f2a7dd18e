"""The folder that a pipeline works in: the runs of its stages, what they made, and what is still to be done.

    FOLDER/proposals.yaml        accepted proposals, which may be edited before domains are written
    FOLDER/domains/NAME.yaml     accepted domains, which the suite plays as user domains
    FOLDER/books/NAME-LEVEL-INDEX.md   accepted books
    FOLDER/books.jsonl           their tasks, with the books: suite.tasks=FOLDER/books.jsonl suite.book=written
    FOLDER/runs/STAGE[-ROUND]    a run directory for each stage, with every attempt

Everything but the runs follows from their ledgers.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import yaml

from envs.files import FileError, read_text, read_yaml, shown_files
from envs.files.parquet import read_parquet
from envs.kumo import Domain, DomainError, Task, load_domain
from evals.ledger.ledger import open_ledger, retry_until_stable
from evals.ledger.parts import LedgerDamagedError
from evals.suites.kumo.lab.pipeline.books import Draft
from evals.suites.kumo.lab.pipeline.proposals import Proposal

Stage = Literal["propose", "configure", "write", "check", "revise"]
STAGES: Mapping[Stage, str] = {
    "propose": "new domains by title and goal",
    "configure": "truths, tests and rule-outs of proposed domains",
    "write": "knowledge books for tasks",
    "check": "books read back, by our parser and by a model",
    "revise": "refused books written anew",
}
PREFIX = "kumo_pipeline."
_COLUMNS = ("index", "task", "level", "status", "result", "complaints", "accepted_by", "parser", "model")


@dataclass(frozen=True)
class StageRun:
    """A run of one stage, as far as it went."""

    planned: int
    rows: tuple[Mapping[str, Any], ...]
    """Of the ledger, by index, with the suite's own columns under their short names."""

    @property
    def complete(self) -> bool:
        """Whether nothing is left to ask."""
        return self.planned > 0 and len(self.rows) == self.planned

    def results(self) -> dict[int, Mapping[str, Any]]:
        """The rows of episodes that succeeded or not, by number; failed ones are left out."""
        return {row["index"]: row for row in self.rows if row["status"] == "done"}


@dataclass(frozen=True)
class Folder:
    """See the module's docstring."""

    path: Path

    def run_dir(self, stage: Stage, number: int = 1) -> Path:
        """Where a stage's run lies; checking and revising have rounds."""
        return self.path / "runs" / (f"{stage}-{number}" if stage in ("check", "revise") else stage)

    def run(self, stage: Stage, number: int = 1) -> StageRun | None:
        """A stage's run, or None if it has not begun.

        Raises:
            ValueError: its ledger is damaged.
        """
        folder = self.run_dir(stage, number)
        if not (folder / "plan.parquet").is_file():
            return None
        try:
            plan = read_parquet(folder / "plan.parquet")
            table = retry_until_stable(lambda: _rows_of(folder, plan))
        except (LedgerDamagedError, pa.ArrowException, OSError) as error:
            raise ValueError(f"{folder}: cannot be read: {error}") from None
        names = [name.removeprefix(PREFIX) for name in table.column_names]
        rows = sorted(table.rename_columns(names).to_pylist(), key=lambda row: row["index"])
        return StageRun(len(plan), tuple(rows))

    # --- what the stages work on ---

    def proposals(self) -> list[Proposal]:
        """The accepted proposals.

        Raises:
            ValueError: the file holds something else.
        """
        path = self.path / "proposals.yaml"
        found: list[Proposal] = []
        if not path.is_file():
            return found
        try:
            entries = read_yaml(path) or []
            if not isinstance(entries, list):
                raise ValueError("must be a list of proposals, each beginning with a dash")
            for number, entry in enumerate(entries, 1):
                category = str(entry.get("category", "")) if isinstance(entry, dict) else ""
                try:
                    found.append(Proposal.read(entry, category))
                except ValueError as error:
                    raise ValueError(f"proposal {number}: {error}") from None
        except FileError:
            # Its message names the file already.
            raise
        except ValueError as error:
            raise ValueError(f"{path}: {' '.join(str(error).split())}") from None
        return found

    def domains(self) -> list[Path]:
        """The files of the accepted domains."""
        return shown_files(self.path / "domains", "*.yaml")

    def round(self, stage: Stage) -> int:
        """The round that a stage is in: the first one that is not complete."""
        number = 1
        while True:
            run = self.run(stage, number)
            if run is None or not run.complete:
                return number
            number += 1

    def drafts(self, stage: Stage, number: int, tasks: Sequence[tuple[Domain, Task]]) -> list[tuple[int, Draft]]:
        """The books that a stage has to write, check or revise in a round, each with the number of its task."""
        if stage == "write":
            return [(place, Draft(domain, task)) for place, (domain, task) in enumerate(tasks)]
        # What was written or revised is checked, and what the check refused is revised.
        written = self._written(number)
        before = written if stage == "check" else self.run("check", number)
        texts = written.results() if written else {}
        found = []
        for place, row in _to_do(stage, before).items():
            # There may be fewer tasks now than there were.
            if place >= len(tasks):
                continue
            domain, task = tasks[place]
            text = texts.get(place, {}).get("result") or ""
            complaints = row["complaints"] or ()
            draft = Draft(domain, task, text, tuple(complaints))
            found.append((place, draft))
        return found

    def _written(self, number: int) -> StageRun | None:
        """The run that wrote the books which are checked in a round."""
        return self.run("write") if number == 1 else self.run("revise", number - 1)

    def holdings(self) -> str:
        """What was accepted so far, in words."""
        books = len(shown_files(self.path / "books", "*.md"))
        counts = ((len(self.proposals()), "proposal"), (len(self.domains()), "domain"), (books, "book"))
        return ", ".join(f"{count} {what}{'s' if count != 1 else ''}" for count, what in counts) + " accepted"

    # --- what they leave ---

    def add(self, name: str, text: str) -> bool:
        """Write a new file under the folder; one that is there stays as it is.

        Returns:
            Whether the file now holds the text.
        """
        path, beside = self._beside(name, text)
        try:
            os.link(beside, path)  # fails if there is one, whoever wrote it
        except FileExistsError:
            return read_text(path) == text
        finally:
            beside.unlink(missing_ok=True)
        return True

    def extend(self, name: str, lines: Sequence[str]) -> bool:
        """Write a file of lines, in place of one that holds none but these.

        Returns:
            Whether the file now holds the lines; it is left as it is if it holds others.
        """
        path, beside = self._beside(name, "".join(lines))
        if path.exists() and not set(read_text(path).splitlines(True)) <= set(lines):
            beside.unlink()
            return False
        beside.replace(path)
        return True

    def _beside(self, name: str, text: str) -> tuple[Path, Path]:
        """The path of a file, and another one beside it that holds the text, durably."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{secrets.token_hex(4)}.tmp")
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        return path, beside


def _rows_of(folder: Path, plan: pa.Table) -> pa.Table:
    ledger = open_ledger(folder, plan)
    if ledger.damage:
        raise LedgerDamagedError(ledger.damage)
    return ledger.table([*_COLUMNS, *(PREFIX + name for name in _COLUMNS)])


def load_all(paths: Iterable[str | Path]) -> list[Domain]:
    """Domains by name or file.

    Raises:
        ValueError: one is missing or wrong.
    """
    try:
        return [load_domain(path) for path in paths]
    except DomainError as error:
        raise ValueError(str(error)) from None


def task_line(task: Task, book: str, accepted_by: str) -> str:
    """A task with its book, as a line of a task file."""
    line = {**task.to_json(), "book": book, "book_accepted_by": accepted_by}
    return json.dumps(line, ensure_ascii=False) + "\n"


def proposals_text(proposals: Sequence[Proposal]) -> str:
    """The file of accepted proposals."""
    entries = [{**each.header, "truths": list(each.truths), "actions": list(each.actions)} for each in proposals]
    head = "# Domains that a model proposed. Edit or delete entries before domains are written.\n"
    return head + str(yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=120))


def _to_do(stage: Stage, before: StageRun | None) -> Mapping[int, Mapping[str, Any]]:
    """What the stage before leaves for this one: nothing until it is complete, and nothing to revise of what it accepted."""
    if before is None or not before.complete:
        return {}
    rows = before.results()
    if stage == "check":
        return rows
    return {place: row for place, row in rows.items() if not row["accepted_by"]}
