"""The knowledge book: all that a player may know about a task's outcomes, in plain words and in a fixed form.

Every rule-out among the task's truths is stated, an outcome without one is said to rule out nothing, and nothing else is
implied: neither the valid truth nor what any test will show.
"""

from __future__ import annotations

from envs.kumo.domain import Action, Domain, State, number_text
from envs.kumo.task import Task


def write_book(task: Task, domain: Domain) -> str:
    """The knowledge book of a task as Markdown; the same task gives the same text, character for character.

    Args:
        task: what to describe.
        domain: the task's domain, for its title, goal and nouns.
    """
    truth, action = domain.truth, domain.action
    lines = [
        f"# {domain.title}: what each {action.singular} can rule out",
        "",
        domain.goal,
        "",
        "## How to read this book",
        "",
        f"Exactly one of the {truth.plural} listed below is the right one. "
        f"For each {action.singular} this book lists every outcome it can have and the {truth.plural} which that outcome "
        "rules out. An outcome only ever excludes; it never confirms. "
        f"If an outcome rules out a {truth.singular}, that {truth.singular} is certainly not the right one. "
        f"If it does not, that {truth.singular} stays possible. "
        "Ranges of numbers include both of their ends.",
        "",
        f"## The {truth.plural} in question",
        "",
        *(f"- {name}" for name in task.truths),
        "",
        f"## The {action.plural} and their outcomes",
    ]
    for entry in task.actions:
        lines += [
            "",
            f"### {entry.name}",
            "",
            _introduction(entry),
            "",
            *(_rule(entry, s, truth.plural) for s in entry.states),
        ]
    return "\n".join(lines) + "\n"


def _introduction(action: Action) -> str:
    if action.outcome == "str":
        return f"Shows one of {len(action.states)} outcomes:"
    unit = f" in {action.unit}" if action.unit else ""
    return f"Shows a number{unit}, which lies in one of {len(action.states)} ranges:"


def _rule(action: Action, state: State, truths: str) -> str:
    if isinstance(state.value, str):
        outcome = state.value
    else:
        low, high = map(number_text, state.value)
        outcome = f"from {low} to {high} {action.unit}".rstrip()
    if not state.rules_out:
        return f"- **{outcome}** rules out none of the {truths}."
    return f"- **{outcome}** rules out: {'; '.join(state.rules_out)}."
