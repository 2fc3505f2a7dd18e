"""The knowledge book: all that a player may know about a task's outcomes, in one of five styles.

Every rule-out among the task's truths is stated, and nothing else is implied: neither the valid truth nor what any test
will show. ``envs.kumo.book_reader`` reads books back.
"""

from __future__ import annotations

from typing import Literal, get_args

from envs.kumo.domain import Action, Domain, State
from envs.kumo.prose import write_prose
from envs.kumo.task import Task

BookStyle = Literal["prose", "table", "symbolic", "long", "noisy"]
BOOK_STYLES: tuple[BookStyle, ...] = get_args(BookStyle)


def write_book(task: Task, domain: Domain, style: BookStyle = "prose") -> str:
    """The knowledge book of a task as Markdown; the same rules give the same text, character for character.

    Args:
        task: what to describe.
        domain: the task's domain, for its definitions and nouns.
        style: ``prose`` defines every truth and test and states the rule-outs in sentences; ``long`` describes as many
            again that are not in the task; ``noisy`` has irrelevant sentences in between; ``table`` lists the rule-outs under
            headings; ``symbolic`` is a terse notation.

    Raises:
        ValueError: the domain has no notes for a noisy book.
    """
    if style == "table":
        return _table(task, domain)
    if style == "symbolic":
        return _symbolic(task)
    return write_prose(task, domain, longer=style == "long", noisy=style == "noisy")


def _table(task: Task, domain: Domain) -> str:
    truths, action = domain.truth.plural, domain.action.singular
    lines = [
        f"# {domain.title}: what each {action} can rule out",
        "",
        f"For each {action}, this book lists every outcome and the {truths} that the outcome rules out. A dash means that the "
        "outcome rules out nothing. Whatever is not ruled out remains possible. Ranges of numbers include both of their ends.",
    ]
    for entry in task.actions:
        lines += ["", f"## {_heading(entry)}", "", *(_row(state) for state in entry.states)]
    return "\n".join(lines)


def _heading(action: Action) -> str:
    return f"{action.name} ({action.unit})" if action.unit else action.name


def _row(state: State) -> str:
    return f"- {state.text}: {'; '.join(state.rules_out)}" if state.rules_out else f"- {state.text}: –"


def _symbolic(task: Task) -> str:
    lines = [
        "X -> not {A; B} means that outcome X rules out A and B; {} means that it rules out nothing; whatever is not ruled out "
        "remains possible; [a, b] includes both ends."
    ]
    for action in task.actions:
        rules = [f"  {_symbol(state)} -> not {{{'; '.join(state.rules_out)}}}" for state in action.states]
        lines += ["", _heading(action), *rules]
    return "\n".join(lines)


def _symbol(state: State) -> str:
    if isinstance(state.value, str):
        return f'"{state.text}"'
    return f"[{state.text.replace(',', '').replace(' to ', ', ')}]"
