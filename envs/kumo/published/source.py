"""The folder of an imported benchmark: how it is written, and how it is read again, one domain at a time.

    FOLDER/benchmark.json        what it holds: domains, counts, warnings, what the published agent says in each turn
    FOLDER/domains/NAME.json     truths, actions with outcome tables, system prompt of one domain
    FOLDER/tasks/NAME.jsonl      its tasks, one a line: the task, what it shows as published, its book, optimum and defects

A folder may come from anybody: it is read as data, and domains are found by their names only.
"""

from __future__ import annotations

import functools
import glob
import json
import os
import re
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.files import real_path
from envs.kumo.domain import Action, Domain, Noun, State
from envs.kumo.published.checkout import KIB, CheckoutError, parse_json, read_text
from envs.kumo.published.templates import Template, TurnTemplates, fill, from_json
from envs.kumo.task import Task

FORMAT = 1
"""Of the folder; a folder of another format is refused."""

TRUTH, ACTION = Noun("candidate", "candidates"), Noun("test", "tests")
"""What imported domains call their truths and actions in our own prompts."""

SUMMARY_FILE = "benchmark.json"
_PARTS = {"domains": ".json", "tasks": ".jsonl"}
"""The folders of an import, and how the names of their files end: one file for each domain."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,60}")
_SUMMARY, _DOMAIN, _TASKS = 4096 * KIB, 4096 * KIB, 65536 * KIB


class MalformedFolderError(ValueError):
    """A folder is no imported benchmark, or damaged; the message says where."""


@dataclass(frozen=True, eq=False)
class PublishedTask:
    """One imported task with all that belongs to it."""

    task: Task
    level: str
    shown: Mapping[str, Any]
    """What each test shows, as published (some malformed tasks show lists)."""
    book: str
    malformed: tuple[str, ...]
    """Why it is malformed; empty for almost all."""
    optimal_play: tuple[str, ...] | None
    """Perfect play by our search: tests, and last the truth; None where no truth survives it (malformed tasks only)."""
    tied_actions: float | None
    """The same, counted, as a mean over all equally good tests."""
    shipped_actions: int | None
    """Tests and prediction of the published search."""


@dataclass(frozen=True, eq=False)
class PublishedDomain:
    """One imported domain."""

    domain: Domain
    system: Template
    """The system prompt, with the slots ``truths``, ``actions`` and ``book``."""
    turns: TurnTemplates
    tasks: tuple[PublishedTask, ...]

    def system_prompt(self, task: Task, book: str) -> str:
        """The published system prompt of a task."""
        names = {"truths": repr(list(task.truths)), "actions": repr(list(task.action_names))}
        return fill(self.system, {**names, "book": book})


def action_to_json(action: Action) -> dict[str, Any]:
    """An action as JSON values."""
    states = [
        {"state": s.value if isinstance(s.value, str) else list(s.value), "rules_out": list(s.rules_out)}
        for s in action.states
    ]
    return {"name": action.name, "type": action.outcome, "states": states}


def _remove_abandoned(parent: Path, beginning: str) -> None:
    """Remove the folders whose names begin so and go on with the number of a process that has ended: it was killed."""
    for left in parent.glob(f"{glob.escape(beginning)}*.tmp"):
        number = left.name.removeprefix(beginning).removesuffix(".tmp")
        if number.isdecimal() and not Path("/proc", number).exists():
            shutil.rmtree(left, ignore_errors=True)


def _check_replaceable(folder: Path) -> None:
    """See that a folder holds nothing, or an earlier import and nothing else.

    Raises:
        CheckoutError: it holds something else.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    refusal = f"{folder}: holds something else than an imported benchmark"
    try:
        names = _domains_of(_read_summary(str(folder)), str(folder))
    except MalformedFolderError:
        raise CheckoutError(f"{refusal}; name another folder") from None
    files = {f"{part}/{name}{suffix}" for part, suffix in _PARTS.items() for name in names}
    ours = {SUMMARY_FILE, *_PARTS, *files}
    for entry in sorted(folder.rglob("*")):
        relative = entry.relative_to(folder).as_posix()
        if relative not in ours:
            raise CheckoutError(f"{refusal}, {relative}; name another folder, or move it away")


def write_folder(folder: Path, summary: Mapping[str, Any], domains: Mapping[str, Mapping[str, Any]]) -> None:
    """Write a benchmark beside and rename it; an earlier import there is replaced, anything else is not.

    Raises:
        CheckoutError: something else is there.
        OSError: it cannot be written.
    """
    _check_replaceable(folder)
    place = real_path(folder)
    ours = f".{place.name}.{socket.gethostname()}."
    beside = place.with_name(f"{ours}{os.getpid()}.tmp")
    _remove_abandoned(place.parent, ours)
    try:
        for part in _PARTS:
            (beside / part).mkdir(parents=True)
        for name, domain in domains.items():
            fields = {key: value for key, value in domain.items() if key != "tasks"}
            _write(beside / "domains" / f"{name}.json", json.dumps(fields, ensure_ascii=False, indent=1))
            lines = [json.dumps(task, ensure_ascii=False) + "\n" for task in domain["tasks"]]
            _write(beside / "tasks" / f"{name}.jsonl", "".join(lines))
        _write(beside / SUMMARY_FILE, json.dumps(summary, ensure_ascii=False, indent=1))
        if place.exists():
            _check_replaceable(folder)  # writing took a while
            shutil.rmtree(place)
        beside.rename(place)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


@functools.lru_cache(maxsize=8)
def _summary(folder: str) -> Mapping[str, Any]:
    return _read_summary(folder)


def _read_summary(folder: str) -> Mapping[str, Any]:
    try:
        summary = parse_json(read_text(Path(folder), SUMMARY_FILE, _SUMMARY))
    except ValueError as cause:
        raise MalformedFolderError(
            f"{folder}: is no imported benchmark ({cause}); make one with raycade kumo import"
        ) from None
    if not isinstance(summary, dict) or summary.get("format") != FORMAT:
        raise MalformedFolderError(f"{folder}: is of another format; import the benchmark again")
    return summary


def benchmark_domains(folder: str) -> tuple[str, ...]:
    """The domains of an imported benchmark, sorted.

    Raises:
        MalformedFolderError: the folder is no imported benchmark.
    """
    return _domains_of(_summary(folder), folder)


def _domains_of(summary: Mapping[str, Any], folder: str) -> tuple[str, ...]:
    names = summary.get("domains")
    damaged = MalformedFolderError(f"{folder}/{SUMMARY_FILE}: its list of domains is damaged")
    if not isinstance(names, list):
        raise damaged
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise damaged
    return tuple(sorted(names))


@functools.lru_cache(maxsize=256)
def open_domain(folder: str, name: str) -> PublishedDomain:
    """One domain of an imported benchmark with its tasks.

    Raises:
        MalformedFolderError: there is no such domain, or its files are damaged.
    """
    known = benchmark_domains(folder)
    if name not in known:
        raise MalformedFolderError(f"{folder}: has no domain {name!r}; it has {', '.join(known)}")
    place = f"{folder}/{SUMMARY_FILE}"
    try:
        turns = _turns(_summary(folder)["turns"])
        place = f"{folder}/domains/{name}.json"
        fields = parse_json(read_text(Path(folder), f"domains/{name}.json", _DOMAIN))
        domain, system = _domain(name, fields), from_json(fields["system"])
        place = f"{folder}/tasks/{name}.jsonl"
        lines = read_text(Path(folder), f"tasks/{name}.jsonl", _TASKS).split("\n")
        tasks = tuple(_task(parse_json(line), name) for line in lines if line)
    except (ValueError, KeyError, TypeError, AttributeError) as cause:
        raise MalformedFolderError(f"{place}: is damaged ({type(cause).__name__}: {cause})") from None
    return PublishedDomain(domain, system, turns, tasks)


def _turns(fields: Mapping[str, Any]) -> TurnTemplates:
    joint, begin = str(fields["joint"]), str(fields["begin"])
    return TurnTemplates(from_json(fields["instruction"]), from_json(fields["outcome"]), joint, begin)


def _domain(name: str, fields: Mapping[str, Any]) -> Domain:
    actions = tuple(
        Action(entry["name"], entry["type"], tuple(_state(state) for state in entry["states"]))
        for entry in fields["actions"]
    )
    return Domain(
        name=name,
        title=name.replace("_", " ").capitalize(),
        goal="Find out which candidate is the right one.",
        truth=TRUTH,
        action=ACTION,
        truths=tuple(fields["truths"]),
        actions=actions,
    )


def _state(fields: Mapping[str, Any]) -> State:
    value = fields["state"]
    return State(value if isinstance(value, str) else (value[0], value[1]), tuple(fields["rules_out"]))


def _task(fields: Mapping[str, Any], domain: str) -> PublishedTask:
    task, optimum = Task.from_json(fields["task"]), fields["optimum"]
    if task.domain != domain:
        raise ValueError(f"holds a task of {task.domain!r}")
    play = optimum["play"]
    return PublishedTask(
        task,
        fields["level"],
        fields["shown"],
        fields["book"],
        tuple(fields["malformed"]),
        None if play is None else tuple(play),
        optimum["tied"],
        optimum["shipped"],
    )
