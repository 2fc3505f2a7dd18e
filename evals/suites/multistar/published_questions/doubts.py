"""What is known to be wrong with published keys: each is held against the description of the panels that comes with it.

The slips of the published generator that this finds: a step of two told as one, or as going the other way; the lower part's
colors asked in the words of the upper; sizes of an outer and an inner object compared by level; reversed directions on the
3x3 grid; sizes asked in place of colors; an object named by a shape that several have; another option that means the same as
the key, or is true as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from envs.raven import COLOR_VALUES, SIZE_VALUES
from evals.suites.multistar.published_questions.kinds import first_panel, places_in, plain, shapes_in
from evals.suites.multistar.questions.question import Part, QuestionAttribute, Stage
from evals.suites.multistar.questions.singles import SHAPES

Panel = Sequence[Mapping[str, Any]]
"""Objects, each with position, shape, size and color."""

_COMPONENT: Final[dict[Part | None, int]] = {None: 0, "left": 0, "right": 1, "top": 0, "bottom": 1, "out": 0, "in": 1}
_ATTRIBUTE_OF_RULE: Final = {"number": "Number", "shape": "Type", "size": "Size", "color": "Color"}
_ROWS: Final = {"top": 0, "middle": 1, "bottom": 2}
_COLUMNS: Final = {"left": 0, "center": 1, "right": 2}
_COLOR_LEVELS: Final = {float(value): level for level, value in enumerate(COLOR_VALUES)}
_SIZE_LEVELS: Final = {value: level for level, value in enumerate(SIZE_VALUES, 1)}


@dataclass(frozen=True)
class Asked:
    """A question as it was read."""

    stage: Stage
    attribute: QuestionAttribute | None
    part: Part | None
    text: str
    options: tuple[str, ...]
    key: int
    panels: tuple[int, ...]
    """Those that the picture shows, from 0."""


def doubts_of(asked: Asked, panels: Sequence[Panel], rules: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Why the key is wrong, or not the only right one; empty where nothing is known against it."""
    found = []
    words = [plain(option) for option in asked.options]
    place = asked.attribute == "position" and asked.stage in ("1P", "1P-B")
    if place and len({_place(word) for word in words}) < len(words):
        found.append("another option means the same")
    if asked.stage in ("1R", "2R"):
        return (*found, *_rule_doubts(asked, panels, rules))
    if place and (named := shapes_in(asked.text)):
        objects = _of(panels[asked.panels[0]], asked.part)
        if sum(one["shape"] == named[0] for one in objects) > 1:
            return (*found, f"several objects are a {named[0]}")
    right = expected(asked, panels)
    if right is not None and (_place(words[asked.key]) if place else words[asked.key]) != right:
        found.append(f"the panels say: {right}")
    return tuple(found)


def expected(asked: Asked, panels: Sequence[Panel]) -> str | None:
    """The right answer by the description of the panels, in plain words; None where the words do not tell what is asked."""
    if asked.stage == "2P":
        return _two_panels(asked, panels)
    panel = panels[asked.panels[0]] if asked.panels else ()
    objects, words = _of(panel, asked.part), {plain(option) for option in asked.options}
    if asked.stage == "1P-C":
        return _compared(asked, panel, words)
    if asked.attribute == "number":
        return str(len(objects))
    if words <= {"yes", "no", "only one object"}:
        return _alike(objects, asked.attribute, words)
    if asked.attribute == "position" and (named := shapes_in(asked.text)):
        return next((_place(plain(one["position"])) for one in objects if one["shape"] == named[0]), None)
    if asked.attribute == "shape":
        places = places_in(asked.text)
        there = [one for one in objects if plain(one["position"]) in places] if len(objects) > 1 else objects
        return str(there[0]["shape"]) if len(there) == 1 else None
    return None


def _of(panel: Panel, part: Part | None) -> list[Mapping[str, Any]]:
    names = {"in": "inner", "out": "outer"}
    wanted = names.get(part or "", part)
    return [one for one in panel if wanted is None or wanted in str(one["position"]).replace("-", " ").split()]


def _place(place: str) -> str:
    return "bottom" if place == "down" else place


def _value(one: Mapping[str, Any], attribute: QuestionAttribute | None) -> Any:
    return SHAPES.index(one["shape"]) if attribute == "shape" else one[attribute or ""]


def _alike(objects: Panel, attribute: QuestionAttribute | None, words: set[str]) -> str:
    if len(objects) == 1 and "only one object" in words:
        return "only one object"
    parts = {word for one in objects for word in ("inner", "outer") if word in one["position"]}
    if attribute == "size" and len(parts) == 2:  # levels of the two parts are not on one scale
        return "no"
    return "yes" if len({_value(one, attribute) for one in objects}) == 1 else "no"


def _sign(one: Any, other: Any, attribute: QuestionAttribute | None) -> str:
    names = {"size": ("larger", "smaller"), "color": ("brighter", "darker")}
    more, less = names.get(attribute or "", ("more", "fewer"))
    return "same" if one == other else more if one > other else less


def _two_panels(asked: Asked, panels: Sequence[Panel]) -> str:
    one, other = (_of(panels[number], asked.part) for number in first_panel(asked.text, asked.panels))
    if asked.attribute == "number":
        return _sign(len(one), len(other), "number")
    if asked.attribute == "position":
        return "yes" if {each["position"] for each in one} == {each["position"] for each in other} else "no"
    values = [{_value(each, asked.attribute) for each in objects} for objects in (one, other)]
    if any(len(found) != 1 for found in values):
        return "not comparable"
    return _sign(values[0].pop(), values[1].pop(), asked.attribute)


def _compared(asked: Asked, panel: Panel, words: set[str]) -> str | None:
    if words <= {"yes", "no"}:
        return _alike(panel, asked.attribute, words)
    if asked.attribute == "position":
        named = shapes_in(asked.text)
        found = [[one for one in panel if one["shape"] == name] for name in named[:2]]
        if len(found) == 2 and all(len(each) == 1 for each in found):
            return _direction(*(plain(each[0]["position"]) for each in found))
        return None
    places = places_in(asked.text)
    there = [one for place in places[:2] for one in panel if plain(one["position"]) == place]
    if len(places) != 2 or len(there) != 2:
        return None
    if asked.attribute == "size" and sum(place == "outer part" for place in places) == 1:
        return "larger" if places[0] == "outer part" else "smaller"
    one, other = (_value(each, asked.attribute) for each in there)
    return _sign(one, other, asked.attribute)


def _direction(one: str, other: str) -> str | None:
    if "outer part" in (one, other):
        return "outside" if one == "outer part" else "inside"
    cells = [_cell(place.removesuffix(" of the inner part")) for place in (one, other)]
    if None in cells:
        return None
    (row, column), (its_row, its_column) = cells  # type: ignore[misc]
    sideways = "left" if column < its_column else "right" if column > its_column else ""
    upright = "above" if row < its_row else "below" if row > its_row else ""
    return " and ".join(word for word in (sideways, upright) if word)


def _cell(place: str) -> tuple[int, int] | None:
    words = place.split()
    rows, columns = ([table[word] for word in words if word in table] for table in (_ROWS, _COLUMNS))
    return (rows[0] if rows else 1, columns[0] if columns else 1) if rows or columns else None


# --- rules -----------------------------------------------------------------------------------------------------------


def _rule_doubts(asked: Asked, panels: Sequence[Panel], rules: Sequence[Mapping[str, Any]]) -> list[str]:
    """Doubts about a question which rule the rows follow."""
    found = []
    number = _COMPONENT[asked.part]
    for rule in rules[number]["rules"] if number < len(rules) else ():
        asks_for_it = rule.get("attr") == _ATTRIBUTE_OF_RULE.get(asked.attribute or "")
        if rule.get("name") != "Progression" or not asks_for_it:
            continue
        # The generator knows the steps +1 and -1 and puts every other step to one of them.
        step = str(rule.get("value"))
        if step == "2":
            found.append("a rise by two is told as a fall")
        elif step == "-2" and asked.attribute in ("number", "shape"):
            found.append("a fall by two is told as one by one")
    shown = [_of(panels[panel], asked.part) for panel in asked.panels]
    rows = [shown[start : start + 3] for start in range(0, len(shown), 3)]
    others = [option.lower() for number, option in enumerate(asked.options) if number != asked.key]
    if any(_also_true(option, asked.attribute, rows) for option in others):
        found.append("another option is true as well")
    return found


def _also_true(option: str, attribute: QuestionAttribute | None, rows: Sequence[Sequence[Panel]]) -> bool:
    """Whether a statement other than the key is true of all rows, as far as its words are known."""
    if attribute == "position":
        # Where objects stand still within a row, the last panel is the union of the others, too.
        still = all(len({frozenset(one["position"] for one in panel) for panel in row}) == 1 for row in rows)
        return still and "union" in option
    if attribute not in ("color", "size"):
        return False
    for row in rows:
        levels = [_common_level(panel, attribute) for panel in row]
        if len(levels) != 3 or None in levels:
            return False
        if not _fits(option, *levels):  # type: ignore[arg-type]
            return False
    return True


def _fits(option: str, first: int, second: int, third: int) -> bool:
    """Whether a statement on sizes or colors is true of one row of levels."""
    if "constant amount" in option:
        rises = "increase" in option or "darken" in option
        step = second - first
        return third - second == step and (step > 0 if rises else step < 0)
    if "sum" in option:
        return first + second == third
    if "difference" in option:
        return first - second == third
    return False


def _common_level(panel: Panel, attribute: QuestionAttribute) -> int | None:
    """The level of all objects of a panel as RAVEN's arithmetic counts it: white is 0, the smallest size 1."""
    values = {float(one[attribute]) for one in panel}
    if len(values) != 1:
        return None
    scale = _SIZE_LEVELS if attribute == "size" else _COLOR_LEVELS
    return scale.get(values.pop())
