"""A user's own goals, action texts, reasons and list format (``words.yaml`` in a folder of templates).

    goals:                      # by task; TASK_L3 for one level, TASK_watching while a memory task shows what to remember
      CL: "Sort $item_1 into $color_1 and $item_2 into $color_2."
    actions:                    # by task and kind of action
      CL: {pick: "take $label", put: "drop $slot into $label"}
    reasons:                    # of the worked example; an action's fields and its goal's
      CL: {pick: "It is needed.", put: "It belongs there."}
    names: {soccer ball: football}          # replaces what a field says
    list: {entry: "$letter) '$text'", separator: " ", letters: "/"}

Whatever is left out keeps the built-in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from string import Template
from typing import Any, Final

from envs.kidgym import Action, World
from envs.kidgym.catalog import ROMAN, SLOTS, words
from evals.suites.kidgym.reasons import reason

_Fields = Mapping[str, Callable[[Any], str]]

_FILLING: Final[_Fields] = {"positions": lambda world: ", ".join(ROMAN[: world.level])}
GOAL_FIELDS: Final[Mapping[str, _Fields]] = {
    "CL": {
        "item_1": lambda world: words(world.belongs[0][0]),
        "color_1": lambda world: words(world.belongs[0][1]),
        "item_2": lambda world: words(world.belongs[1][0]),
        "color_2": lambda world: words(world.belongs[1][1]),
    },
    "SE": {"type": lambda world: str(world.type)},
    "SO": {
        "premise": lambda world: world.rule[0],
        "consequence": lambda world: world.rule[1],
        "first": lambda world: world.ends[0],
        "last": lambda world: world.ends[1],
        "property": lambda world: world.asked,
        "positions": lambda world: ", ".join(ROMAN[: len(world.answer)]),
    },
    "MA": {},
    "FI": _FILLING,
    "PU": _FILLING,
    "PL": {
        "direction": lambda world: world.direction,
        "turn": lambda world: "clockwise" if world.turn > 0 else "counterclockwise" if world.turn else "",
        "item": lambda world: words(world.item),
        "center": lambda world: words(world.center),
    },
    "CO": {"number": lambda world: str(world.target), "item": lambda world: words(world.item)},
    "DMA": {},
    "MMA": {},
    "MDE": {},
    "MFI": _FILLING,
}
"""What a task's goal can say, by field."""

_LOCKS: Final = {"obtain": "label", "unlock": "label slot"}
ACTION_FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "CL": {"pick": "label", "put": "label slot"},
    "SE": {"continue": "", "choose": "label type"},
    "SO": {"place": "slot position"},
    "MA": _LOCKS,
    "FI": {"place": "slot position"},
    "PU": {"place": "slot position"},
    "PL": {"place": "item position"},
    "CO": {"pick": "item label", "declare": "number item"},
    "DMA": _LOCKS,
    "MMA": {"continue": "", **_LOCKS},
    "MDE": {"continue": "", "choose": "label"},
    "MFI": {"continue": "", "place": "slot position"},
}
"""The kinds of actions of each task, and the fields of their texts."""
_TELLING: Final = frozenset({"label", "slot", "position"})
"""Fields without which two actions could have the same text; they always stand as the pictures show them."""

SECTIONS: Final = ("goals", "actions", "reasons", "names", "list")
_LIST_FIELDS: Final[Mapping[str, str]] = {"entry": "letter text", "separator": "", "letters": ""}


@dataclass(frozen=True)
class Wording:
    """What replaces built-in words; empty where nothing does.

    Attributes:
        goals: By task, with what it is narrower by (``SE_L1_watching``).
        actions: By task and kind of action, with a dot between.
        reasons: As ``actions``.
        names: What a field says, and what is to stand there.
        entry: Of the list of actions.
        separator: Between its entries.
        letters: Between letters where the answer's form lists them.
    """

    goals: tuple[tuple[str, str], ...] = ()
    actions: tuple[tuple[str, str], ...] = ()
    reasons: tuple[tuple[str, str], ...] = ()
    names: tuple[tuple[str, str], ...] = ()
    entry: str = "$letter) $text"
    separator: str = "\n"
    letters: str = ", "

    @property
    def tells_tasks(self) -> bool:
        """Whether it replaces what is said of single tasks."""
        return bool(self.goals or self.actions or self.reasons)

    def goal(self, world: World) -> str:
        """What has to be done."""
        known, task, level = dict(self.goals), world.name, f"{world.name}_L{world.level}"
        names = (level, task) if not world.watching else (f"{level}_watching", f"{task}_watching", level, task)
        found = next((known[name] for name in names if name in known), None)
        return world.goal if found is None else self._filled(found, _goal_values(world))

    def action(self, world: World, action: Action) -> str:
        """The text of one action."""
        found = dict(self.actions).get(f"{world.name}.{action.verb}")
        return action.text if found is None else self._filled(found, _action_values(world, action))

    def texts(self, world: World) -> tuple[str, ...]:
        """The texts of the actions offered now."""
        return tuple(self.action(world, action) for action in world.ordered)

    def reason(self, world: World, action: Action) -> str:
        """Why the worked example takes an action."""
        found = dict(self.reasons).get(f"{world.name}.{action.verb}")
        if found is None:
            return reason(world, action)
        return self._filled(found, {**_goal_values(world), **_action_values(world, action)})

    def listed(self, letters: tuple[str, ...], texts: tuple[str, ...]) -> str:
        """The list of actions."""
        entry = Template(self.entry)
        return self.separator.join(
            entry.substitute(letter=letter, text=text) for letter, text in zip(letters, texts, strict=True)
        )

    def _filled(self, text: str, values: Mapping[str, str]) -> str:
        names = dict(self.names)
        said = {}
        for field, value in values.items():
            said[field] = value if field in _TELLING else names.get(value, value)
        return Template(text).substitute(said)


BUILT_IN: Final = Wording()
"""Replaces nothing."""


def _goal_values(world: World) -> dict[str, str]:
    return {field: say(world) for field, say in GOAL_FIELDS.get(world.name, {}).items()}


def _action_values(world: World, action: Action) -> dict[str, str]:
    known = _goal_values(world)
    if action.cell in world.scene:
        item = world.scene[action.cell]
        known["label"] = item.label
        family, _, number = item.sprite.partition("/")
        known["position"] = ROMAN[int(number) - 1] if family == "roman" else ""
    known["slot"] = SLOTS[action.slot] if action.slot >= 0 else ""
    return known


def wording_of(data: Any) -> Wording:
    """The wording that the parsed ``words.yaml`` describes.

    Raises:
        ValueError: a section, task, action, field or value is not one of those that there are; the message names it.
    """
    given = _table("words.yaml", data or {}, SECTIONS)
    # A section may be missing or empty.
    sections = {section: given.get(section) or {} for section in SECTIONS}
    goals = _goals(sections["goals"])
    chosen = _table("list", sections["list"], tuple(_LIST_FIELDS))
    for name, text in chosen.items():
        fields = frozenset(_LIST_FIELDS[name].split())
        _check_text(f"list, {name}", text, fields, fields)
    names = _table("names", sections["names"], None)
    for name, text in names.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise ValueError(f"names: {name!r}: {text!r} is not a name and what is to stand for it, both texts")
    return Wording(
        goals=tuple(goals.items()),
        actions=tuple(_of_actions("actions", sections["actions"], reasons=False)),
        reasons=tuple(_of_actions("reasons", sections["reasons"], reasons=True)),
        names=tuple(names.items()),
        **chosen,
    )


def _goals(data: Any) -> dict[str, Any]:
    goals = _table("goals", data, None)
    for name, text in goals.items():
        task, levels = _task_of(str(name))
        if task not in GOAL_FIELDS or not levels:
            raise ValueError(
                f"goals: no goal {name!r}; a goal is named by its task ({', '.join(GOAL_FIELDS)}), TASK_L1 to TASK_L3, "
                "or these with _watching for what a memory task says while it shows what to remember"
            )
        _check_text(f"goals, {name}", text, frozenset(GOAL_FIELDS[task]))
    return goals


def _task_of(name: str) -> tuple[str, bool]:
    """The task of a goal's name, and whether the rest of the name is right."""
    task, _, level = name.partition("_")
    if "continue" in ACTION_FIELDS.get(task, {}):
        # A task that shows first what to remember.
        task, _, level = name.removesuffix("_watching").partition("_")
    return task, level in ("", "L1", "L2", "L3")


def _of_actions(section: str, data: Any, reasons: bool) -> Iterator[tuple[str, str]]:
    for task, texts in _table(section, data, tuple(ACTION_FIELDS)).items():
        kinds = ACTION_FIELDS[task]
        for verb, text in _table(f"{section}, {task}", texts, tuple(kinds)).items():
            fields = frozenset(kinds[verb].split())
            needed = fields & _TELLING
            if reasons:
                # Reasons need tell no field, and may tell those of the goal, too.
                needed, fields = frozenset(), fields | frozenset(GOAL_FIELDS[task])
            _check_text(f"{section}, {task}, {verb}", text, fields, needed)
            yield f"{task}.{verb}", text


def _table(where: str, data: Any, known: tuple[str, ...] | None) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ValueError(f"{where}: must be names with a value each, not {data!r:.60}")
    for name in data:
        if known is not None and name not in known:
            raise ValueError(f"{where}: no {name!r}; there are {', '.join(known)}")
    return data


def _check_text(where: str, text: Any, fields: frozenset[str], needed: frozenset[str] = frozenset()) -> None:
    if not isinstance(text, str):
        raise ValueError(f"{where}: must be a text, not {text!r:.60}")
    template = Template(text)
    if not template.is_valid():
        raise ValueError(f"{where}: a lone '$'; a dollar sign is written '$$'")
    found = set(template.get_identifiers())
    unknown = sorted(found - fields)
    lacking = sorted(needed - found)
    if unknown:
        raise ValueError(f"{where} has a field ${unknown[0]} that nothing fills; {_known(fields)}")
    if lacking:
        raise ValueError(f"{where} lacks the field ${lacking[0]}; {_known(fields)}")


def _known(fields: frozenset[str]) -> str:
    """The fields of a text, in words."""
    names = [f"${name}" for name in sorted(fields)] or ["none"]
    return f"its fields are {', '.join(names)}"
