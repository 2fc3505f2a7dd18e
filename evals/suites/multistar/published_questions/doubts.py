"""What is known to be wrong with published keys: each is held against the description of the panels that comes with it.

The slips of the published generator that this finds: a step of two told as one, or as going the other way; the lower part's
colors asked in the words of the upper; sizes of an outer and an inner object compared by level; reversed directions on the
3x3 grid; sizes asked in place of colors; an object named by a shape that several have; another option that means the same as
the key, or is true as well.
"""

from __future__ import annotations

import re
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
_RISES: Final = re.compile("increase|darken")
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

    @property
    def asks_place(self) -> bool:
        """Whether it asks where an object is, not where it is relative to another."""
        return self.attribute == "position" and self.stage in ("1P", "1P-B")


def doubts_of(asked: Asked, panels: Sequence[Panel], rules: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Why the key is wrong, or not the only right one; empty where nothing is known against it.

    Raises:
        ValueError: the question is about panels that its picture does not show, or that are not described.
    """
    _check_panels(asked, panels)
    if asked.stage in ("1R", "2R"):
        return tuple(_rule_doubts(asked, panels, rules))
    found = []
    words = _words(asked)
    if asked.asks_place:
        if len(set(words)) < len(words):
            found.append("another option means the same")
        shape = _ambiguous_shape(asked, panels)
        if shape:
            return (*found, f"several objects are a {shape}")
    right = expected(asked, panels)
    if right is not None and words[asked.key] != right:
        found.append(f"the panels say: {right}")
    return tuple(found)


def _check_panels(asked: Asked, panels: Sequence[Panel]) -> None:
    """See that the panels are there that a question is about."""
    shown = len(asked.panels)
    if shown and max(asked.panels) >= len(panels):
        raise ValueError(f"is about panel {max(asked.panels) + 1}, where {len(panels)} are described")
    if asked.stage == "2P" and shown != 2:
        raise ValueError(f"compares two panels, where its picture shows {shown}")
    if asked.stage.startswith("1P") and not shown:
        raise ValueError("is about one panel, where its picture shows no single one")


def _words(asked: Asked) -> list[str]:
    """The options in plain words; "down" and "bottom" are offered as two options, and are one place."""
    words = [plain(option) for option in asked.options]
    if asked.asks_place:
        return [_place(word) for word in words]
    return words


def _ambiguous_shape(asked: Asked, panels: Sequence[Panel]) -> str | None:
    """The shape that is named, if several objects have it: "Where is the square?" has one answer only for one square."""
    shapes = shapes_in(asked.text)
    if not shapes:
        return None
    objects = _of(panels[asked.panels[0]], asked.part)
    return shapes[0] if len(_shaped(objects, shapes)) > 1 else None


def expected(asked: Asked, panels: Sequence[Panel]) -> str | None:
    """The right answer by the description of the panels, in plain words; None where the words do not tell what is asked."""
    if asked.stage == "2P":
        return _two_panels(asked, panels)
    panel = panels[asked.panels[0]]
    words = {plain(option) for option in asked.options}
    if asked.stage == "1P-C":
        return _compared(asked, panel, words)
    objects = _of(panel, asked.part)
    if asked.attribute == "number":
        return str(len(objects))
    if words <= {"yes", "no", "only one object"}:
        return _alike(objects, asked.attribute, words)
    match asked.attribute:
        case "position":
            # Of the first object of the shape that is named.
            shaped = _shaped(objects, shapes_in(asked.text))
            return _place(plain(shaped[0]["position"])) if shaped else None
        case "shape":
            # Of the one object at the place that is named, or of the only one.
            if len(objects) > 1:
                objects = _at(objects, places_in(asked.text))
            return str(objects[0]["shape"]) if len(objects) == 1 else None
        case _:
            return None


def _shaped(objects: Panel, shapes: Sequence[str]) -> list[Mapping[str, Any]]:
    """The objects of the first of some shapes; none where there is no shape."""
    return [one for one in objects if one["shape"] in shapes[:1]]


def _at(objects: Panel, places: Sequence[str]) -> list[Mapping[str, Any]]:
    return [one for one in objects if plain(one["position"]) in places]


def _of(panel: Panel, part: Part | None) -> list[Mapping[str, Any]]:
    """The objects of a part, which their positions name; all of them without a part."""
    if part is None:
        return list(panel)
    wanted = {"in": "inner", "out": "outer"}.get(part, part)
    found = []
    for one in panel:
        position = str(one["position"]).replace("-", " ")
        if wanted in position.split():
            found.append(one)
    return found


def _place(place: str) -> str:
    return "bottom" if place == "down" else place


def _value(one: Mapping[str, Any], attribute: QuestionAttribute | None) -> Any:
    return SHAPES.index(one["shape"]) if attribute == "shape" else one[attribute or ""]


def _values(objects: Panel, attribute: QuestionAttribute | None) -> set[Any]:
    return {_value(one, attribute) for one in objects}


def _alike(objects: Panel, attribute: QuestionAttribute | None, words: set[str]) -> str:
    if len(objects) == 1 and "only one object" in words:
        return "only one object"
    inner = any("inner" in one["position"] for one in objects)
    outer = any("outer" in one["position"] for one in objects)
    if attribute == "size" and inner and outer:
        # Levels of the two parts are not on one scale.
        return "no"
    return "yes" if len(_values(objects, attribute)) == 1 else "no"


def _sign(one: Any, other: Any, attribute: QuestionAttribute | None) -> str:
    if one == other:
        return "same"
    names = {"size": ("larger", "smaller"), "color": ("brighter", "darker")}
    more, less = names.get(attribute or "", ("more", "fewer"))
    return more if one > other else less


def _two_panels(asked: Asked, panels: Sequence[Panel]) -> str:
    one, other = (_of(panels[number], asked.part) for number in first_panel(asked.text, asked.panels))
    if asked.attribute == "number":
        return _sign(len(one), len(other), "number")
    values, other_values = _values(one, asked.attribute), _values(other, asked.attribute)
    if asked.attribute == "position":
        same = values == other_values
        return "yes" if same else "no"
    # Looks of panels can be compared only where all objects of a panel share them.
    comparable = len(values) == len(other_values) == 1
    if not comparable:
        return "not comparable"
    return _sign(values.pop(), other_values.pop(), asked.attribute)


def _compared(asked: Asked, panel: Panel, words: set[str]) -> str | None:
    """The answer to a comparison of two objects of one panel; None where the words do not single out two."""
    if asked.attribute == "number":
        # A single object has no number.
        return None
    if words <= {"yes", "no"}:
        return _alike(panel, asked.attribute, words)
    if asked.attribute == "position":
        return _relative_place(asked, panel)
    # Two objects named by their places.
    places = places_in(asked.text)
    if len(places) != 2:
        return None
    there = [*_at(panel, places[:1]), *_at(panel, places[1:])]
    if len(there) != 2:
        return None
    if asked.attribute == "size" and places.count("outer part") == 1:
        # Sizes of the two parts are on two scales; what surrounds the other object is larger.
        return "larger" if places[0] == "outer part" else "smaller"
    one, other = there
    return _sign(_value(one, asked.attribute), _value(other, asked.attribute), asked.attribute)


def _relative_place(asked: Asked, panel: Panel) -> str | None:
    """Where an object lies from another, both named by their shapes; None where a shape does not single out one."""
    found = []
    for shape in shapes_in(asked.text)[:2]:
        found.append([one for one in panel if one["shape"] == shape])
    if [len(objects) for objects in found] != [1, 1]:
        return None
    (first,), (second,) = found
    return _direction(plain(first["position"]), plain(second["position"]))


def _direction(one: str, other: str) -> str | None:
    """Where one place lies from another, as the generator words it."""
    if one == "outer part":
        return "outside"
    if other == "outer part":
        return "inside"
    cell = _cell(one.removesuffix(" of the inner part"))
    its_cell = _cell(other.removesuffix(" of the inner part"))
    if cell is None or its_cell is None:
        return None
    row, column = cell
    its_row, its_column = its_cell
    # Sideways comes before upright: "left and above".
    words = []
    if column != its_column:
        words.append("left" if column < its_column else "right")
    if row != its_row:
        words.append("above" if row < its_row else "below")
    return " and ".join(words) or None


def _cell(place: str) -> tuple[int, int] | None:
    """Row and column of a place on the grid, the middle where its words name only the other; None where they name neither."""
    words = place.split()
    rows = [_ROWS[word] for word in words if word in _ROWS]
    columns = [_COLUMNS[word] for word in words if word in _COLUMNS]
    if not rows and not columns:
        return None
    return rows[0] if rows else 1, columns[0] if columns else 1


# --- rules -----------------------------------------------------------------------------------------------------------


def _rule_doubts(asked: Asked, panels: Sequence[Panel], rules: Sequence[Mapping[str, Any]]) -> list[str]:
    """Doubts about a question which rule the rows follow."""
    found = _step_doubts(asked, rules)
    shown = [_of(panels[panel], asked.part) for panel in asked.panels]
    rows = [shown[start : start + 3] for start in range(0, len(shown), 3)]
    if not rows:
        # Of a picture without panels of its own nothing more can be told.
        return found
    if _another_is_true(asked, rows):
        found.append("another option is true as well")
    return found


def _another_is_true(asked: Asked, rows: Sequence[Sequence[Panel]]) -> bool:
    """Whether the rows follow a rule of another option than the key."""
    for place, option in enumerate(asked.options):
        if place == asked.key:
            continue
        if _also_true(option.lower(), asked.attribute, rows):
            return True
    return False


def _step_doubts(asked: Asked, rules: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of steps that are told as others: the generator knows +1 and -1 and puts every other step to one of them."""
    told_wrongly = {"2": "a rise by two is told as a fall"}
    if asked.attribute in ("number", "shape"):
        told_wrongly["-2"] = "a fall by two is told as one by one"
    number = _COMPONENT[asked.part]
    if number >= len(rules):
        return []
    progression = "Progression", _ATTRIBUTE_OF_RULE.get(asked.attribute or "")
    found = []
    for rule in rules[number]["rules"]:
        kind = rule.get("name"), rule.get("attr")
        step = str(rule.get("value"))
        if kind == progression and step in told_wrongly:
            found.append(told_wrongly[step])
    return found


def _also_true(option: str, attribute: QuestionAttribute | None, rows: Sequence[Sequence[Panel]]) -> bool:
    """Whether a statement other than the key is true of all rows, as far as its words are known."""
    if attribute == "position":
        # Where objects stand still within a row, the last panel is the union of the others, too.
        return "union" in option and all(_stand_still(row) for row in rows)
    if attribute in ("color", "size"):
        return all(_fits(option, [_common_level(panel, attribute) for panel in row]) for row in rows)
    return False


def _stand_still(row: Sequence[Panel]) -> bool:
    """Whether all panels of a row occupy the same positions."""
    return len({frozenset(one["position"] for one in panel) for panel in row}) == 1


def _fits(option: str, levels: Sequence[int | None]) -> bool:
    """Whether a statement on sizes or colors is true of one row of levels, of which None stands for several."""
    known = [level for level in levels if level is not None]
    if len(known) != 3:
        return False
    first, second, third = known
    if "constant amount" in option:
        # One step twice, in the direction that the statement says.
        step, next_step = second - first, third - second
        right_way = step > 0 if _RISES.search(option) else step < 0
        return step == next_step and right_way
    if "sum" in option:
        return first + second == third
    if "difference" in option:
        return first - second == third
    # The other statements are not looked into.
    return False


def _common_level(panel: Panel, attribute: QuestionAttribute) -> int | None:
    """The level of all objects of a panel as RAVEN's arithmetic counts it: white is 0, the smallest size 1."""
    values = {float(one[attribute]) for one in panel}
    if len(values) != 1:
        return None
    scale = _SIZE_LEVELS if attribute == "size" else _COLOR_LEVELS
    return scale.get(values.pop())
