"""Reads MultiStAR questions as a person would: from their English and from the panels they show, nothing else.

This is the referee for the question generator and imports none of it. It parses text and options, looks objects up in the
symbolic scene by geometry, and says for every option whether the statement is true and whether each reference names
exactly one object. A wording that it does not know is an error, not a guess.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from envs.raven import COLOR_VALUES, SIZE_VALUES, TYPE_VALUES, Problem, RavenPicture, solve

EDGES = {"triangle": 3, "square": 4, "pentagon": 5, "hexagon": 6, "circle": math.inf}


class UnreadableError(Exception):
    """A text that does not parse."""


@dataclass(frozen=True)
class Thing:
    """An object as seen: center, half diameter (in panels), shape word, gray, and the part it belongs to."""

    row: float
    column: float
    part: str
    shape: str
    gray: int
    step: int
    reach: float


@dataclass
class Judgment:
    """What the reader found."""

    stage: str
    attribute: str | None
    part: str | None
    truths: list[bool]
    vague: int = 0
    """References that name no object, or more than one."""


def look_at(problem: Problem, index: int) -> list[Thing]:
    """The objects of a panel."""
    things = []
    panel = (problem.context + problem.candidates)[index]
    for layout, component in zip(problem.configuration.layouts, panel.components, strict=True):
        part = {"Left": "left", "Right": "right", "Up": "top", "Down": "bottom", "In": "inner", "Out": "outer"}.get(
            layout.component, ""
        )
        for entity in component.entities:
            row, column, height, width = layout.slots[entity.slot]
            reach = min(height, width) * SIZE_VALUES[entity.size] / 2
            things.append(
                Thing(row, column, part, TYPE_VALUES[entity.type], COLOR_VALUES[entity.color], entity.size, reach)
            )
    return things


def read(problem: Problem, picture: RavenPicture, setting: str, text: str, options: tuple[str, ...]) -> Judgment:
    """Judge all options of a question.

    Raises:
        UnreadableError: the wording is unknown, or does not go with the picture.
    """
    _check_setting(problem, setting)
    if picture.arrangement == "puzzle":
        return _final(problem, text, options)
    text, notes = _split_notes(text)
    panels = [look_at(problem, index) for index in picture.panels]
    if picture.arrangement == "rows":
        return _Rows(problem, panels, text, notes).judge(options)
    if len(panels) == 2:
        if not picture.panels[0] < picture.panels[1] or picture.panels[0] // 3 != picture.panels[1] // 3:
            raise UnreadableError(f"panels {picture.panels} side by side")
        return _pair(panels, text, notes, options)
    if len(panels) == 1:
        return _single(problem, panels[0], text, notes, options)
    raise UnreadableError(f"{len(panels)} panels")


def _check_setting(problem: Problem, setting: str) -> None:
    wanted = {
        "Singleton": "$",
        "Left_Right": r".*vertical line.*left part.*right part",
        "Up_Down": r".*horizontal line.*top part.*bottom part",
        "Out_In": r".*outer part.*inner part",
    }[problem.configuration.structure]
    if not re.match(wanted, setting):
        raise UnreadableError(f"setting: {setting}")


def _split_notes(text: str) -> tuple[str, list[str]]:
    return re.sub(r" \([^)]*\)", "", text), re.findall(r" \(([^)]*)\)", text)


def _check_edge_note(notes: list[str]) -> None:
    for note in notes:
        if found := re.fullmatch(r"Shapes in rising order of edges: (.*)\.", note):
            order = found[1].split(", ")
            if len(order) == 5 and [EDGES[name] for name in order] == sorted(EDGES.values()):
                return
    raise UnreadableError(f"no order of edges among the notes {notes}")


def _final(problem: Problem, text: str, options: tuple[str, ...]) -> Judgment:
    if not re.search(r"numbered|number", text) or "1 to 8" not in text:
        raise UnreadableError(text)
    parts = {"Left_Right": "left.*right", "Up_Down": "top.*bottom", "Out_In": "inner.*outer"}
    own = parts.get(problem.configuration.structure)
    if bool(own) != ("each follow their own rules" in text) or (own and not re.search(own, text)):
        raise UnreadableError(text)
    complete = {str(answer + 1) for answer in solve(problem).answers}
    return Judgment("final", None, None, [option in complete for option in options])


# --- references ------------------------------------------------------------------------------------------------------

_PLACE = r"in the ((?:left|right|top|bottom|outer|inner) part|[a-z-]+ position(?: of the inner part)?)"


def at(things: list[Thing], place: str) -> list[Thing]:
    """The objects in a place; a place is a part, or a cell of the panel or of its inner part."""
    place = place.replace(" position", "")
    if found := re.fullmatch(r"(left|right|top|bottom|outer|inner) part", place):
        return [thing for thing in things if thing.part == found[1]]
    if place.endswith(" of the inner part"):
        place, things = place.removesuffix(" of the inner part"), [thing for thing in things if thing.part == "inner"]
    elif any(thing.part for thing in things):
        raise UnreadableError(f"{place!r} in a panel that has parts")
    row, column = ("middle", "center") if place == "center" else place.split("-")
    if row not in ("top", "middle", "bottom") or column not in ("left", "center", "right"):
        raise UnreadableError(f"place {place!r}")
    return [thing for thing in things if _cell(thing) == (row, column)]


def _cell(thing: Thing) -> tuple[str, str]:
    """Top or bottom and left or right of the middle lines, or on them."""
    near = 1e-6
    vertical = "middle" if abs(thing.row - 0.5) < near else "top" if thing.row < 0.5 else "bottom"
    horizontal = "center" if abs(thing.column - 0.5) < near else "left" if thing.column < 0.5 else "right"
    return vertical, horizontal


_RANKS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_MOST = {
    "largest": lambda thing: -thing.reach,
    "smallest": lambda thing: thing.reach,
    "darkest": lambda thing: thing.gray,
    "brightest": lambda thing: -thing.gray,
}


def named(things: list[Thing], words: str) -> list[Thing]:
    """The objects that a description (without "the") may mean."""
    if found := re.fullmatch(rf"({'|'.join(_RANKS)}) object( of the inner part)? in reading order", words):
        among = sorted(
            (thing for thing in things if not found[2] or thing.part == "inner"),
            key=lambda thing: (Fraction(str(thing.row)), Fraction(str(thing.column))),
        )
        return [among[_RANKS.index(found[1])]]
    if found := re.fullmatch(rf"(?:({'|'.join(_MOST)}) )?({'|'.join(EDGES)})", words):
        suited = [thing for thing in things if thing.shape == found[2]]
        if found[1]:
            best = min(map(_MOST[found[1]], suited), default=None)
            suited = [thing for thing in suited if _MOST[found[1]](thing) == best]
        return suited
    raise UnreadableError(f"description {words!r}")


# --- one panel -------------------------------------------------------------------------------------------------------


def _looks(things: list[Thing], attribute: str) -> list[object]:
    return [{"shape": thing.shape, "size": thing.reach, "color": thing.gray}[attribute] for thing in things]


def _area(things: list[Thing], words: str) -> tuple[list[Thing], str | None]:
    """Objects of "this panel" or "the left part of this panel"."""
    if words == "this panel":
        return things, None
    found = re.fullmatch(r"the (left|right|top|bottom|inner|outer) part of this panel", words)
    if not found:
        raise UnreadableError(f"area {words!r}")
    return [thing for thing in things if thing.part == found[1]], _code(found[1])


def _code(part: str) -> str:
    return {"inner": "in", "outer": "out"}.get(part, part)


_THIS = r"((?:the \w+ part of )?this panel)"


def _single(problem: Problem, things: list[Thing], text: str, notes: list[str], options: tuple[str, ...]) -> Judgment:
    if found := re.fullmatch(
        rf"(?:How many objects are there in {_THIS}\?|Count the objects in {_THIS}\. How many are there\?|"
        rf"What is the number of objects in {_THIS}\?|How many objects does {_THIS} contain\?)",
        text,
    ):
        own, part = _area(things, next(filter(None, found.groups())))
        return Judgment("1P-B", "number", part, [int(option) == len(own) for option in options])
    for judge in (_alike_or_single, _all_the_same, _compare, _relation, _shape_at):
        if judgment := judge(things, text, notes, options):
            return judgment
    return _where(problem, things, text, notes, options)


def _alike_or_single(things: list[Thing], text: str, notes: list[str], options: tuple[str, ...]) -> Judgment | None:
    noun = r"(?P<noun{}>size|color)"
    forms = (
        rf"Which statement about the {noun} of the objects in {_THIS} is true\?",
        rf"In terms of {noun}, what does {_THIS} contain\?",
        rf"Look at the {noun} of the objects in {_THIS}\. Which description is right\?",
        rf"Which description of the {noun} of the objects in {_THIS} fits\?",
    )
    found = next(filter(None, (re.fullmatch(form.format(""), text) for form in forms)), None)
    if not found:
        return None
    own, part = _area(things, found[2])
    attributes, truths = {found["noun"]}, []
    for option in options:
        if option == "only one object":
            truths.append(len(own) == 1)
        elif said := re.fullmatch(r"several objects of (one|different) (size|color)s?", option):
            attributes.add(said[2])
            several, kinds = len(own) > 1, len(set(_looks(own, said[2])))
            truths.append(several and (kinds == 1 if said[1] == "one" else kinds > 1))
        else:
            raise UnreadableError(option)
    if len(attributes) != 1:
        raise UnreadableError(f"{text} {options}")
    (attribute,) = attributes
    return Judgment("1P", attribute, part, truths)


def _all_the_same(things: list[Thing], text: str, notes: list[str], options: tuple[str, ...]) -> Judgment | None:
    found = re.fullmatch(
        r"(?:Do all objects in this panel have the same (\w+)\?|Are all objects in this panel of one (\w+)\?|"
        r"Is there only one (\w+) among the objects in this panel\?|"
        r"Does every object in this panel have the same (\w+) as the others\?)",
        text,
    )
    if not found:
        return None
    attribute = next(filter(None, found.groups()))
    same = len(set(_looks(things, attribute))) == 1
    return Judgment(
        "1P-C", attribute, None, [{"yes": same, "no": not same}[option] for option in options], vague=len(things) < 2
    )


_RATIOS = {
    "the same number of edges": ("shape", 0),
    "more edges": ("shape", 1),
    "fewer edges": ("shape", -1),
    "the same size": ("size", 0),
    "a larger size": ("size", 1),
    "a smaller size": ("size", -1),
    "the same color": ("color", 0),
    "a darker color": ("color", 1),
    "a brighter color": ("color", -1),
}


def _amount(thing: Thing, attribute: str) -> float:
    return {"shape": EDGES[thing.shape], "size": thing.reach, "color": 255 - thing.gray}[attribute]


def _ratio_truths(options: tuple[str, ...], text: str, one: float, other: float, attribute: str) -> list[bool]:
    asked = re.search(r"(number of edges|size|color)", text)
    if not asked or {"number of edges": "shape"}.get(asked[1], asked[1]) != attribute:
        raise UnreadableError(f"{text} asks for another attribute than {attribute}, but offers {options}")
    return [_RATIOS[option] == (attribute, (one > other) - (one < other)) for option in options]


def _compare(things: list[Thing], text: str, notes: list[str], options: tuple[str, ...]) -> Judgment | None:
    by = r"(?:number of edges|size|color)"
    one, other = (f"the object {_PLACE.replace('((', f'(?P<{name}>(', 1)}" for name in ("one", "other"))
    forms = (
        rf"In terms of {by}, how does {one} compare with {other}\?",
        rf"Compare the {by} of {one} with that of {other}\. What does {one.replace('?P<one>', '?:')} have\?",
        rf"How does the {by} of {one} compare with that of {other}\?",
        rf"Relative to {other}, what {by} does {one} have\?",
    )
    found = next(filter(None, (re.fullmatch(form, text) for form in forms)), None)
    if not found:
        return None
    attribute = _RATIOS[options[0]][0]
    if attribute == "shape":
        _check_edge_note(notes)
    firsts, seconds = at(things, found["one"]), at(things, found["other"])
    vague = (len(firsts) != 1) + (len(seconds) != 1) + (firsts == seconds)
    amounts = _amount(firsts[0], attribute), _amount(seconds[0], attribute)
    return Judgment("1P-C", attribute, None, _ratio_truths(options, text, *amounts, attribute), vague)


def _relation(things: list[Thing], text: str, notes: list[str], options: tuple[str, ...]) -> Judgment | None:
    one, other = r"the (?P<one>\w+)", r"the (?P<other>\w+)"
    forms = (
        rf"Seen from {other}, where is {one}\?",
        rf"Where is {one} in relation to {other}\?",
        rf"How is {one} placed relative to {other}\?",
        rf"Take {other} as the point of reference\. Where is {one}\?",
    )
    found = next(filter(None, (re.fullmatch(form, text) for form in forms)), None)
    if not found:
        return None
    firsts, seconds = named(things, found["one"]), named(things, found["other"])
    vague = (len(firsts) > 1) + (len(seconds) > 1) + (found["one"] == found["other"])
    missing = not firsts or not seconds
    truths = []
    for option in options:
        if option == "one of the two shapes is not in this panel":
            truths.append(missing)
        else:
            truths.append(not missing and _stands(firsts[0], option, seconds[0]))
    return Judgment("1P-C", "position", None, truths, vague)


def _stands(one: Thing, relation: str, other: Thing) -> bool:
    if relation in ("inside it", "around it"):
        inner, outer = (one, other) if relation == "inside it" else (other, one)
        return inner.part == "inner" and outer.part == "outer"
    down, right = one.row - other.row, one.column - other.column
    if found := re.fullmatch(r"directly (to the left of|to the right of|above|below) it", relation):
        return {
            "to the left of": right < 0 and down == 0,
            "to the right of": right > 0 and down == 0,
            "above": down < 0 and right == 0,
            "below": down > 0 and right == 0,
        }[found[1]]
    if found := re.fullmatch(r"(above|below) it and to the (left|right)", relation):
        return (down < 0 if found[1] == "above" else down > 0) and (right < 0 if found[2] == "left" else right > 0)
    raise UnreadableError(f"relation {relation!r}")


def _shape_at(things: list[Thing], text: str, notes: list[str], options: tuple[str, ...]) -> Judgment | None:
    found = re.fullmatch(
        rf"(?:What is the shape of the object {_PLACE}\?|Which shape does the object {_PLACE} have\?|"
        rf"There is an object {_PLACE}\. What is its shape\?|Name the shape of the object {_PLACE}\.)",
        text,
    )
    if not found:
        return None
    there = at(things, next(filter(None, found.groups())))
    truths = [EDGES[option] == EDGES[there[0].shape] for option in options]
    return Judgment("1P-B", "shape", _part_of(there[0]), truths, vague=len(there) != 1)


def _part_of(thing: Thing) -> str | None:
    return _code(thing.part) if thing.part else None


def _where(problem: Problem, things: list[Thing], text: str, notes: list[str], options: tuple[str, ...]) -> Judgment:
    found = re.fullmatch(
        r"(?:Where in this panel is the (.+)\?|In which position is the (.+)\?|"
        r"What is the position of the (.+) in this panel\?|Find the (.+) in this panel\. Where is it\?)",
        text,
    )
    if not found:
        raise UnreadableError(text)
    words = next(filter(None, found.groups()))
    if ("reading order" in words) != (notes == ["Reading order is row by row from the top left."]):
        raise UnreadableError(f"{text} {notes}")
    meant = named(things, words)
    truths, none = [], "it is not in this panel"
    for option in options:
        if option == none:
            truths.append(not meant)
        else:
            truths.append(any(thing in at(things, option) for thing in meant))
    vague = len(meant) > 1 or (not meant and none not in options)
    return Judgment("1P-B", "position", _part_of(meant[0]) if meant else None, truths, vague)


# --- two panels ------------------------------------------------------------------------------------------------------

_SIDE = r"the (?:(\w+) part of the )?(left|right) panel"


def _pair(panels: list[list[Thing]], text: str, notes: list[str], options: tuple[str, ...]) -> Judgment:
    by = r"(?:number of edges|size|color)"
    one, other = r"(?P<one>the (?:\w+ part of the )?\w+ panel)", r"(?P<other>the (?:\w+ part of the )?\w+ panel)"
    forms = {
        "number": (
            rf"How does the number of objects in {one} compare with the number in {other}\?",
            rf"Count the objects in both panels\. Compared with {other}, what does {one} have\?",
            rf"Does {one} have the same number of objects as {other}, more, or fewer\?",
            rf"Compare {one} with {other} by the number of objects\. What does (?P=one) have\?",
        ),
        "position": (
            rf"Are the objects in {one} in the same positions as those in {other}\?",
            rf"Are exactly the same positions occupied in {one} and in {other}\?",
            rf"Is every position that is occupied in {one} also occupied in {other}, and vice versa\?",
            rf"Do the occupied positions in {one} match those in {other}\?",
        ),
        "look": (
            rf"In terms of {by}, how do the objects in {one} compare with those in {other}\?",
            rf"Compare the {by} of the objects in {one} with that of the objects in {other}\. "
            rf"What do the objects in (?P=one) have\?",
            rf"How does the {by} of the objects in {one} compare with that of the objects in {other}\?",
            rf"Relative to the objects in {other}, what {by} do the objects in {one} have\?",
        ),
    }
    for kind, wordings in forms.items():
        for wording in wordings:
            if found := re.fullmatch(wording, text):
                first, part = _side(panels, found["one"])
                second, also = _side(panels, found["other"])
                if part != also or found["one"] == found["other"]:
                    raise UnreadableError(text)
                return _pair_judged(kind, text, notes, options, first, second, part)
    raise UnreadableError(text)


def _side(panels: list[list[Thing]], words: str) -> tuple[list[Thing], str | None]:
    found = re.fullmatch(_SIDE, words)
    if not found:
        raise UnreadableError(words)
    things = panels[("left", "right").index(found[2])]
    if not found[1]:
        return things, None
    return [thing for thing in things if thing.part == found[1]], _code(found[1])


def _pair_judged(
    kind: str,
    text: str,
    notes: list[str],
    options: tuple[str, ...],
    first: list[Thing],
    second: list[Thing],
    part: str | None,
) -> Judgment:
    if kind == "number":
        more = len(first) - len(second)
        said = {"the same number of objects": more == 0, "more objects": more > 0, "fewer objects": more < 0}
        return Judgment("2P", "number", part, [said[option] for option in options])
    if kind == "position":
        same = {(t.row, t.column) for t in first} == {(t.row, t.column) for t in second}
        return Judgment("2P", "position", part, [{"yes": same, "no": not same}[option] for option in options])
    ratios = tuple(option for option in options if option != "not comparable")
    attribute = _RATIOS[ratios[0]][0]
    if (
        f"They are comparable only if the objects compared all have the same {attribute} within each panel."
        not in notes
    ):
        raise UnreadableError(f"no condition among the notes {notes}")
    if attribute == "shape":
        _check_edge_note(notes)
    if any(len(set(_looks(things, attribute))) > 1 for things in (first, second)):
        return Judgment("2P", attribute, part, [option == "not comparable" for option in options])
    amounts = _amount(first[0], attribute), _amount(second[0], attribute)
    truths = iter(_ratio_truths(ratios, text, *amounts, attribute))
    return Judgment("2P", attribute, part, [option != "not comparable" and next(truths) for option in options])


# --- rows ------------------------------------------------------------------------------------------------------------


class _Rows:
    """One or two rows of panels, and the rules that are said to hold in them."""

    def __init__(self, problem: Problem, panels: list[list[Thing]], text: str, notes: list[str]) -> None:
        what = r"the (number|positions|shape|color|size) of (?:the )?objects(?: in the (\w+) part)?"
        forms = {
            1: (
                rf"Read this row of three panels from left to right\. Which rule governs {what}\?",
                rf"Which rule describes {what} in this row, read from left to right\?",
                rf"What happens to {what} from the first panel to the third in this row\?",
                rf"From left to right, which statement about {what} is true of this row\?",
            ),
            2: (
                rf"Read both rows of three panels from left to right\. Which rule, the same in both, governs {what}\?",
                rf"Which rule describes {what} in both rows, each read from left to right\?",
                rf"What happens to {what} from the first panel to the third in both rows\?",
                rf"From left to right, which statement about {what} is true of both rows\?",
            ),
        }
        found = next(filter(None, (re.fullmatch(form, text) for form in forms[len(panels) // 3])), None)
        if not found:
            raise UnreadableError(text)
        self.attribute = {"positions": "position"}.get(found[1], found[1])
        self.part = found[2]
        self._check_notes(notes)
        own = [[thing for thing in panel if not self.part or thing.part == self.part] for panel in panels]
        if any(not things for things in own) or (not self.part and any(thing.part for thing in own[0])):
            raise UnreadableError(f"{text}: which part?")
        self.rows = [own[start : start + 3] for start in range(0, len(own), 3)]
        names = {"left": "Left", "right": "Right", "top": "Up", "bottom": "Down", "inner": "In", "outer": "Out"}
        layout = next(la for la in problem.configuration.layouts if la.component == names.get(self.part, "Grid"))
        self.cells = [(slot[0], slot[1]) for slot in layout.slots]  # in reading order

    def _check_notes(self, notes: list[str]) -> None:
        wanted = {
            "number": None,
            "position": "Positions are counted row by row from the top left; the first follows the last.",
            "color": "There are ten shades, numbered from 0, white, to 9, black.",
            "size": "There are six sizes, numbered from 1, smallest, to 6, largest.",
        }
        if self.attribute == "shape":
            _check_edge_note(notes)
        elif notes != [note for note in [wanted[self.attribute]] if note]:
            raise UnreadableError(f"notes {notes} for {self.attribute}")

    def judge(self, options: tuple[str, ...]) -> Judgment:
        truths = [all(self._true(option, row) for row in self.rows) for option in options]
        if len(self.rows) == 2:
            truths = [
                self._three_again() if "the same three different" in option else truth
                for option, truth in zip(options, truths, strict=True)
            ]
        truths = [self._no_rule() if o == NO_RULE else truth for o, truth in zip(options, truths, strict=True)]
        stage = f"{len(self.rows)}R"
        return Judgment(stage, self.attribute, _code(self.part) if self.part else None, truths)

    def _value(self, things: list[Thing]) -> object:
        """A number where the panel has one value of the attribute, a set of cell numbers for positions; else None."""
        if self.attribute == "number":
            return len(things)
        if self.attribute == "position":
            return frozenset(self.cells.index((thing.row, thing.column)) for thing in things)
        numbers = {
            "shape": [list(EDGES).index(thing.shape) for thing in things],
            "color": [COLOR_VALUES.index(thing.gray) for thing in things],
            "size": [thing.step + 1 for thing in things],
        }[self.attribute]
        return numbers[0] if len(set(numbers)) == 1 else None

    def _no_rule(self) -> bool:
        """None of the rules that can be said holds in all rows; three values in turn show in two rows only."""
        every = _EVERY[self.attribute]
        if self._three_again() if len(self.rows) == 2 else self._three_alone(self.rows[0]):
            return False
        return not any(all(self._true(option, row) for row in self.rows) for option in every)

    def _three_alone(self, row: list[list[Thing]]) -> bool:
        """Three different values that no step, sum or difference explains."""
        values = [self._value(panel) for panel in row]
        return (
            None not in values and len(set(values)) == 3 and not any(self._true(o, row) for o in _EVERY[self.attribute])
        )

    def _three_again(self) -> bool:
        first, second = ([self._value(panel) for panel in row] for row in self.rows)
        return None not in first and len(set(first)) == 3 and set(first) == set(second) and first != second

    def _true(self, option: str, row: list[list[Thing]]) -> bool:
        if option == NO_RULE or "the same three different" in option:
            return False  # judged over all rows
        values = [self._value(panel) for panel in row]
        if re.search(r"differ in all three panels|takes three different values", option):
            self._check_exclusions(option)
            return self._three_alone(row)
        if self.attribute == "position":
            return self._true_of_places(option, values)
        subject = {
            "number": "number of objects",
            "size": "(number of the )?size",
            "color": "(number of the shade|color)",
        }
        if not re.match(rf"(The|In the third panel, the) {subject.get(self.attribute, self.attribute)}\b", option):
            raise UnreadableError(f"{option!r} in a question on {self.attribute}")
        if "stays the same" in option:
            return self._same(option, row, values)
        if not any(len(panel) > 1 for panel in row) or self.attribute == "number" or "share" in option:
            return None not in values and _true_of_numbers(option, values)
        raise UnreadableError(f"{option!r} of panels with more than one object")

    def _check_exclusions(self, option: str) -> None:
        """Whether three different values are told apart from all other rules of the attribute."""
        words = {
            "position": "with no steady move, union or difference",
            "shape": "with no steady step of one or two",
        }.get(self.attribute, "with no steady step of one or two and no sum or difference")
        if not option.endswith(f", {words}."):
            raise UnreadableError(option)

    def _same(self, option: str, row: list[list[Thing]], values: list[object]) -> bool:
        alike = None not in values and len(set(values)) == 1
        if not re.search(r"each (\w+) occurs equally often in all its panels", option):
            if self.attribute != "number" and any(len(panel) > 1 for panel in row):
                raise UnreadableError(f"{option!r} of panels with more than one object")
            return alike
        mixtures = [sorted(map(str, _looks(panel, self.attribute))) for panel in row]
        return alike or mixtures[0] == mixtures[1] == mixtures[2]

    def _true_of_places(self, option: str, values: list[object]) -> bool:
        places: list[set[int]] = [set(value) for value in values]  # type: ignore[call-overload]
        one, two, three = places
        if found := re.fullmatch(
            r"Every object moves (on|back) by (one position|two positions) from panel to panel\.", option
        ):
            step = (1 if found[2] == "one position" else 2) * (1 if found[1] == "on" else -1)

            def moved(occupied: set[int]) -> set[int]:
                return {(place + step) % len(self.cells) for place in occupied}

            return moved(one) == two and moved(two) == three
        if re.fullmatch(
            r"The positions occupied in the third panel are those occupied in the first panel, the second, or both\.",
            option,
        ):
            return three == one | two
        if (
            option
            == "The positions occupied in the third panel are those occupied in the first panel but not in the second."
        ):
            return three == one - two
        if re.fullmatch(r"The occupied positions stay the same throughout (the|each) row\.", option):
            return one == two == three
        raise UnreadableError(option)


NO_RULE = "There is no clear rule."


def _true_of_numbers(option: str, values: list[object]) -> bool:
    one, two, three = values
    assert isinstance(one, int) and isinstance(two, int) and isinstance(three, int)
    if found := re.search(
        r"(grows|shrinks|gets darker|gets brighter|moves up|moves down) by (one|two)(?: steps?| shades?)?"
        r"(?: in the order of edges)? from panel to panel\.$",
        option,
    ):
        step = {"one": 1, "two": 2}[found[2]]
        if found[1] in ("shrinks", "gets brighter", "moves down"):
            step = -step
        return two == one + step and three == two + step
    if found := re.search(r"equals that of the first panel (plus|minus) that of the second\.$", option):
        return three == (one + two if found[1] == "plus" else one - two)
    raise UnreadableError(option)


def _every() -> dict[str, list[str]]:
    """For every attribute one wording of each rule there is, but for three values in turn."""
    every: dict[str, list[str]] = {
        "number": [],
        "position": [
            *(
                f"Every object moves {way} by {n} from panel to panel."
                for way in ("on", "back")
                for n in ("one position", "two positions")
            ),
            "The positions occupied in the third panel are those occupied in the first panel, the second, or both.",
            "The positions occupied in the third panel are those occupied in the first panel but not in the second.",
            "The occupied positions stay the same throughout the row.",
        ],
        "shape": [],
        "color": [],
        "size": [],
    }
    words = {
        "number": "grows shrinks",
        "size": "grows shrinks",
        "shape": "moves_up moves_down",
        "color": "gets_darker gets_brighter",
    }
    counted = {
        "number": "number of objects",
        "size": "number of the size that all its objects share",
        "color": "number of the shade that all its objects share",
    }
    for attribute, ways in words.items():
        subject = (
            "The number of objects" if attribute == "number" else f"The {attribute} that all objects of a panel share"
        )
        own = every[attribute]
        own += [
            f"{subject} {way.replace('_', ' ')} by {n} from panel to panel."
            for way in ways.split()
            for n in ("one", "two")
        ]
        if attribute != "shape":
            own += [
                f"In the third panel, the {counted[attribute]} equals that of the first panel {sign} that of the second."
                for sign in ("plus", "minus")
            ]
        own.append(f"{subject} stays the same: each {attribute} occurs equally often in all its panels.")
    every["number"][-1] = "The number of objects stays the same."
    return every


_EVERY = _every()
