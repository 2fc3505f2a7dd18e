"""What a complete stage leaves in the folder; it follows from the ledgers, so that leaving it twice changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from envs.files import parse_json
from envs.kumo.likeness import Profile, near_duplicate
from evals.suites.kumo.lab.pipeline.folder import Folder, load_all, proposals_text, task_line
from evals.suites.kumo.lab.pipeline.model_text import read_data
from evals.suites.kumo.lab.pipeline.proposals import Proposal, choose
from evals.suites.kumo.lab.pipeline.suite import KumoPipeline


@dataclass(frozen=True)
class Saved:
    """What was not kept."""

    refused: tuple[str, ...] = ()
    """Each with its reason."""
    differing: tuple[str, ...] = ()
    """Files that are there with other contents and were left as they are."""


def save_accepted(folder: Folder, suite: KumoPipeline) -> Saved:
    """Leave what the suite's stage made.

    Raises:
        ValueError: a domain in the folder is wrong.
    """
    if suite.stage == "propose":
        return _save_proposals(folder, suite)
    if suite.stage == "configure":
        return _save_domains(folder, suite)
    return _save_books(folder, suite) if suite.stage == "check" else Saved()


def _save_proposals(folder: Folder, suite: KumoPipeline) -> Saved:
    done = folder.run("propose")
    rows = done.results() if done else {}
    found = []
    for row in rows.values():
        for entry in parse_json(row["result"], "propose"):
            found.append(Proposal.read(entry, entry["category"]))
    accepted, refused = list[Proposal](), list[str]()
    for proposal, reason in choose(found, suite.known()):
        if reason:
            refused.append(f"{proposal.title}: {reason}")
        else:
            accepted.append(proposal)
    text = proposals_text(accepted[: suite.proposals])
    return Saved(tuple(refused), _add(folder, [("proposals.yaml", text)]))


def _save_domains(folder: Folder, suite: KumoPipeline) -> Saved:
    done, known = folder.run("configure"), suite.known()
    rows = done.results() if done else {}
    accepted, refused = list[tuple[str, str]](), list[str]()
    for row in rows.values():
        name = Path(row["task"]).name
        if not row["result"]:
            refused.append(f"{name}: {row['complaints'][0]}")
            continue
        data = read_data(row["result"])
        profile = Profile.of(name, data["title"], data["truths"], data["actions"])
        reason = near_duplicate(profile, known)
        if reason:
            refused.append(f"{name}: {reason}")
            continue
        known.append(profile)
        accepted.append((f"domains/{name}.yaml", row["result"]))
    differing = _add(folder, accepted)
    load_all(folder.domains())
    return Saved(tuple(refused), differing)


def _save_books(folder: Folder, suite: KumoPipeline) -> Saved:
    accepted, lines, refused = list[tuple[str, str]](), list[str](), Counter[str]()
    tasks = suite.tasks
    for number in range(1, suite.round + 1):
        done = folder.run("check", number)
        rows = done.results() if done else {}
        for place, row in rows.items():
            if not row["accepted_by"]:
                # What an earlier round refused was revised since, and does not count.
                kind = row["complaints"][0].partition(":")[0]
                refused[kind] += number == suite.round
                continue
            domain, task = tasks[place]
            accepted.append((f"books/{domain.name}-{suite.difficulty}-{task.index}.md", f"{row['result']}\n"))
            lines.append(task_line(task, row["result"], row["accepted_by"]))
    differing = _add(folder, accepted)
    if lines and not folder.extend("books.jsonl", sorted(lines)):
        differing = (*differing, "books.jsonl")
    kinds = []
    for kind, count in refused.most_common():
        # Faults of earlier rounds count 0.
        if count:
            kinds.append(f"{count} with {kind} first among their faults")
    return Saved(tuple(kinds), differing)


def _add(folder: Folder, files: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(name for name, text in files if not folder.add(name, text))
