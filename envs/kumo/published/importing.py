"""From a checkout of the published repository to a folder of ours: domains, tasks, books, prompts and oracle counts.

The checkout is data: its Python is read as syntax trees and never run, every file has a limit, links are not followed. What
cannot be read is left out with a warning that names it; nothing else is lost by it.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envs.files import is_hidden
from envs.kumo.domain import Action
from envs.kumo.generate import DIFFICULTIES
from envs.kumo.published import templates
from envs.kumo.published.checkout import KIB, CheckoutError, exists, parse_json, read_text
from envs.kumo.published.literals import LARGEST, NotDataError, read_variables
from envs.kumo.published.outcomes import read_table, touching
from envs.kumo.published.source import FORMAT, action_to_json, write_folder
from envs.kumo.published.tasks import BadLineError, read_task
from envs.kumo.published.ties import mean_actions
from envs.kumo.search import OptimalSearch
from envs.kumo.task import Task

_REGISTERED = re.compile(
    r"^@registry\.register_environment\(\s*[\"']([A-Z][A-Za-z0-9]{0,60}Env)[\"']\s*\)", re.MULTILINE
)
_MODULE = re.compile(r"[a-z][a-z0-9_]{0,60}")
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+[0-9]*|[A-Z]+[0-9]*|[0-9]+")
_SOURCE, _TASKS, _BOOK, _RESULTS = 64 * KIB, 4096 * KIB, 64 * KIB, 4096 * KIB
"""Most bytes of a source file, a task file, a book, and the file of the published search."""
_FRAGMENT = 500
"""Characters below which a book is only a fragment; whole ones have more than a thousand."""


@dataclass(frozen=True)
class Flaw:
    """Something of the checkout that is malformed, or left out."""

    kind: str
    """``domain``, ``copy``, ``task``, ``line``, ``book``, ``oracle`` or ``refused``."""
    domain: str
    what: str
    level: str = ""
    seed: int | None = None
    reasons: tuple[str, ...] = ()
    """Of a malformed task: which of ``tasks.REASONS`` hold."""

    @property
    def text(self) -> str:
        """One line that names it."""
        task = f" {self.level}" * bool(self.level) + (f" task {self.seed}" if self.seed is not None else "")
        return f"{self.domain}{task}: {self.what}"


@dataclass
class Imported:
    """What an import brought."""

    domains: list[str] = field(default_factory=list)
    tasks: dict[str, int] = field(default_factory=dict)
    """By level."""
    touching: list[str] = field(default_factory=list)
    """Domains with ranges that touch, where the first match decides."""
    warnings: list[Flaw] = field(default_factory=list)

    def of_kind(self, kind: str) -> list[Flaw]:
        """The warnings of one kind."""
        return [warning for warning in self.warnings if warning.kind == kind]


def domain_name(env: str) -> str:
    """The name that a published domain gets: ``OSKernelEnv`` is ``os_kernel``."""
    return "_".join(_WORD.findall(env.removesuffix("Env"))).lower()


def import_checkout(checkout: Path, folder: Path, progress: Callable[[int, int, str], None]) -> Imported:
    """Import the published benchmark; the folder is complete or not there at all.

    Args:
        checkout: The published repository, as the user checked it out.
        folder: Where to write; it must not exist, or hold an earlier import.
        progress: Told the number of each domain that is begun, of how many, and its name.

    Raises:
        CheckoutError: this is no such checkout.
        OSError: the folder cannot be written.
    """
    imported = Imported()
    turns = _agent(checkout)
    domains = {}
    environments = sorted(_environments(checkout, imported).items())
    for number, (env, source) in enumerate(environments, 1):
        name = domain_name(env)
        progress(number, len(environments), name)
        if name in domains:
            imported.warnings.append(Flaw("refused", name, f"{env} has the name of another domain"))
            continue
        try:
            domains[name] = _domain(checkout, env, source, name, imported)
        except (CheckoutError, NotDataError, BadLineError) as cause:
            imported.warnings.append(Flaw("refused", name, f"{env} is left out: {cause}"))
    imported.domains = sorted(domains)
    imported.warnings += _copies(domains)
    if not domains:
        raise CheckoutError(f"{checkout}: holds no domain that can be read: {_first(imported)}")
    write_folder(folder, _summary(imported, turns), domains)
    return imported


def _copies(domains: Mapping[str, Mapping[str, Any]]) -> Iterator[Flaw]:
    """A warning for each domain that has the truths and the outcome tables of an earlier one under another name."""
    first: dict[str, str] = {}
    for name in sorted(domains):
        contents = json.dumps([sorted(domains[name]["truths"]), domains[name]["actions"]])
        if contents in first:
            yield Flaw("copy", name, f"has the same truths and tests as {first[contents]}")
        first.setdefault(contents, name)


def _first(imported: Imported) -> str:
    return imported.warnings[0].text if imported.warnings else "env/ registers none"


def _summary(imported: Imported, turns: templates.TurnTemplates) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "domains": imported.domains,
        "tasks": imported.tasks,
        "counts": dict(Counter(flaw.kind for flaw in imported.warnings)),
        "turns": {
            "instruction": templates.to_json(turns.instruction),
            "outcome": templates.to_json(turns.outcome),
            "joint": turns.joint,
            "begin": turns.begin,
        },
        "touching": imported.touching,
        "warnings": [
            {"kind": w.kind, "domain": w.domain, "level": w.level, "seed": w.seed, "what": w.what}
            for w in imported.warnings
        ],
    }


def _agent(checkout: Path) -> templates.TurnTemplates:
    relative = "agents/vanilla_agent.py"
    try:
        return templates.turn_templates(read_text(checkout, relative, _SOURCE))
    except NotDataError as cause:
        raise CheckoutError(f"{checkout}/{relative}: {cause}") from None
    except CheckoutError as cause:
        raise CheckoutError(f"{checkout}: is no checkout of the published repository: {cause}") from None


def _environments(checkout: Path, imported: Imported) -> Mapping[str, str]:
    """The source of the file that registers each environment which has tasks."""
    try:
        there = sorted(entry.name for entry in os.scandir(checkout / "env"))
    except OSError as cause:
        raise CheckoutError(f"{checkout}/env: cannot be read: {cause.strerror}") from None
    found = {}
    for name in there:
        if not name.endswith("_env.py") or is_hidden(Path(name)):
            continue
        try:
            source = read_text(checkout, f"env/{name}", _SOURCE)
        except CheckoutError as cause:
            imported.warnings.append(Flaw("refused", name.removesuffix("_env.py"), f"is left out: {cause}"))
            continue
        for env in _REGISTERED.findall(source):
            if _has_tasks(checkout, env):
                found[env] = source
    return found


def _has_tasks(checkout: Path, env: str) -> bool:
    return any(exists(checkout, _task_file(env, *size)) for size in DIFFICULTIES.values())


def size_name(truths: int, actions: int) -> str:
    """How the published repository calls tasks of a size."""
    return f"truth_num={truths}+action_num={actions}+valid_truth_num=1"


def _task_file(env: str, truths: int, actions: int) -> str:
    return f"env/{env}/{size_name(truths, actions)}.jsonl"


def _domain(checkout: Path, env: str, source: str, name: str, imported: Imported) -> dict[str, Any]:
    """One domain with its tasks, as it is written; its warnings are added to the others."""
    system, module = templates.system_template(source, env)
    if not _MODULE.fullmatch(module):
        raise CheckoutError(f"takes its data from {module[:80]!r}, which is no module name")
    relative = f"env/data/{module}.py"
    try:
        truths, actions, problems = read_table(read_variables(read_text(checkout, relative, LARGEST)))
    except NotDataError as cause:
        raise CheckoutError(f"{relative}: {cause}") from None
    imported.warnings += [Flaw("domain", name, what) for what in problems]
    if touching(actions):
        imported.touching.append(name)
    table = {action.name: action for action in actions}
    lines = []
    for level, size in DIFFICULTIES.items():
        if exists(checkout, _task_file(env, *size)):
            here = list(_tasks(checkout, env, name, level, truths, table, imported))
            imported.tasks[level] = imported.tasks.get(level, 0) + len(here)
            lines += here
    return {
        "env": env,
        "truths": truths,
        "actions": [action_to_json(action) for action in actions],
        "system": templates.to_json(system),
        "tasks": lines,
    }


def _tasks(
    checkout: Path,
    env: str,
    name: str,
    level: str,
    truths: tuple[str, ...],
    actions: Mapping[str, Action],
    imported: Imported,
) -> Iterator[dict[str, Any]]:
    """The tasks of one file with all that belongs to each; a line that cannot be read costs itself only."""
    size = DIFFICULTIES[level]

    def warn(kind: str, seed: int | None, what: str, reasons: Sequence[str] = ()) -> None:
        imported.warnings.append(Flaw(kind, name, what, level, seed, tuple(reasons)))

    try:
        text = read_text(checkout, _task_file(env, *size), _TASKS)
    except CheckoutError as cause:
        warn("refused", None, str(cause))
        return
    shipped = _shipped_counts(checkout, env, name, level, imported)
    read: dict[int, tuple[Task, dict[str, str], dict[str, Any]]] = {}
    for number, line in enumerate(text.split("\n")):
        if not line.strip():
            continue
        try:
            fields = parse_json(line)
            task, reasons = read_task(fields, name, frozenset(truths), actions)
            if (len(task.truths), len(task.actions)) != size:
                raise BadLineError(f"has {len(task.truths)} truths and {len(task.actions)} actions")
            if task.seed in read:
                raise BadLineError(f"repeats the seed {task.seed}")
        except ValueError as cause:
            warn("line", None, f"line {number + 1} is left out: {cause}")
            continue
        read[task.seed] = (task, reasons, fields["observations"])
        if reasons:
            warn("task", task.seed, "; ".join(reasons.values()), tuple(reasons))
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # the search runs without Python's lock
        optima = list(pool.map(_optimum, (task for task, _, _ in read.values())))
    for (seed, (task, reasons, shown)), optimum in zip(read.items(), optima, strict=True):
        if seed not in shipped:
            warn("oracle", seed, "the published search left no count")
        yield {
            "level": level,
            "task": task.to_json(),
            "shown": shown,
            "malformed": [*reasons.values()],
            "book": _book(checkout, env, level, seed, warn),
            "optimum": {**optimum, "shipped": shipped.get(seed)},
        }


def _optimum(task: Task) -> dict[str, Any]:
    """Perfect play by our search, and its length on average over ties; nothing where no truth survives it."""
    search = OptimalSearch(task)
    try:
        return {"play": search.rollout(), "tied": mean_actions(search)}
    except ValueError:
        return {"play": None, "tied": None}


def _book(checkout: Path, env: str, level: str, seed: int, warn: Any) -> str:
    relative = f"env/{env}/knowledge_book/{size_name(*DIFFICULTIES[level])}/seed={seed}.txt"
    try:
        book = read_text(checkout, relative, _BOOK)
    except CheckoutError as cause:
        warn("book", seed, f"has no book: {cause}")
        return ""
    if len(book) < _FRAGMENT:
        warn("book", seed, f"has a book of {len(book)} characters only")
    return book


def _shipped_counts(checkout: Path, env: str, name: str, level: str, imported: Imported) -> Mapping[int, int]:
    """By seed the tests and the prediction of the published search (its list also holds an entry of bookkeeping)."""
    relative = f"results/search_results/{env}/{size_name(*DIFFICULTIES[level])}/eval_times=10.jsonl"
    counts: dict[int, int] = {}
    try:
        text = read_text(checkout, relative, _RESULTS)
    except CheckoutError as cause:
        imported.warnings.append(Flaw("oracle", name, f"no counts of the published search: {cause}", level))
        return counts
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                fields = parse_json(line)
                taken = fields["trajectories"][0]["actions"]
                if not isinstance(taken, list) or not taken:
                    raise ValueError(taken)
                counts[int(fields["seed"])] = len(taken) - 1
            except (ValueError, KeyError, IndexError, TypeError):
                what = f"line {number} of the published search cannot be read"
                imported.warnings.append(Flaw("oracle", name, what, level))
    return counts


def warnings_to_text(imported: Imported) -> Iterator[str]:
    """One line for each domain that has warnings, with its tasks by number."""
    by_domain: dict[str, list[Flaw]] = {}
    for warning in imported.warnings:
        by_domain.setdefault(warning.domain, []).append(warning)
    for name in sorted(by_domain):
        by_kind: dict[str, list[Flaw]] = {}
        for warning in by_domain[name]:
            by_kind.setdefault(warning.kind, []).append(warning)
        # Malformed tasks first, all by number.
        if "task" in by_kind:
            yield f"{name}: {_malformed(by_kind['task'])}"
        # Of every other kind one stands for all.
        for kind in ("refused", "domain", "copy", "line", "book", "oracle"):
            several = by_kind.get(kind, [])
            if not several:
                continue
            more = ""
            if len(several) > 1:
                more = f" (and {len(several) - 1} more of the kind)"
            yield f"{several[0].text}{more}"


def _malformed(flaws: Sequence[Flaw]) -> str:
    """Malformed tasks by level and number, and what is wrong with the first one."""
    seeds: dict[str, list[str]] = {}
    for flaw in flaws:
        seeds.setdefault(flaw.level, []).append(str(flaw.seed))
    listed = ", ".join(f"{level} {' '.join(numbers)}" for level, numbers in seeds.items())
    return f"malformed tasks {listed} (such as {flaws[0].seed}: {flaws[0].what})"
