"""The symbolic scene: what a RAVEN problem is, apart from its pixels.

Everything holds attribute *levels* (indices into the value tables of ``grammar``), as the official XML does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar, Literal

from envs.raven.grammar import UNIFORM, Attribute, Configuration, EntityAttribute

Style = Literal["iraven", "raven"]
"""How the seven wrong candidates are made: unbiased by attribute bisection, or as RAVEN first did."""
STYLES: tuple[Style, ...] = ("iraven", "raven")

RuleName = Literal["Constant", "Progression", "Arithmetic", "Distribute_Three"]


@dataclass(frozen=True, slots=True)
class Entity:
    """One object: the index of its slot in the layout, and its levels."""

    slot: int
    type: int
    size: int
    color: int
    angle: int

    def level(self, attribute: EntityAttribute) -> int:
        """Level of an entity attribute."""
        return _LEVEL[attribute](self)


_LEVEL: dict[EntityAttribute, Callable[[Entity], int]] = {
    "Type": attrgetter("type"),
    "Size": attrgetter("size"),
    "Color": attrgetter("color"),
}


@dataclass(frozen=True, slots=True)
class Component:
    """The entities of one component in one panel, in the order in which they were drawn (not of their slots)."""

    entities: tuple[Entity, ...]
    uniformity: int
    """Level 0..3, the same in all panels of a problem; at 3 all entities are copies."""

    @property
    def count(self) -> int:
        """Number of entities, 1 to 9 (the Number level plus one)."""
        return len(self.entities)

    @property
    def slots(self) -> frozenset[int]:
        """Occupied slots."""
        return frozenset([entity.slot for entity in self.entities])

    @property
    def uniform(self) -> bool:
        """Whether the component was drawn with all entities alike."""
        return self.uniformity == UNIFORM

    def levels(self, attribute: EntityAttribute) -> tuple[int, ...]:
        """Levels of all entities, in entity order."""
        return tuple(map(_LEVEL[attribute], self.entities))

    def common(self, attribute: EntityAttribute) -> int | None:
        """The level that all entities share, or None where they differ."""
        levels = self.levels(attribute)
        return levels[0] if levels.count(levels[0]) == len(levels) else None


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel; its components are in the order of the configuration's layouts."""

    components: tuple[Component, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A row-wise rule on one attribute of one component.

    ``parameter`` is the step of a Progression (-2, -1, 1, 2), the sign of an Arithmetic (1 sum or union, -1 difference)
    and 0 for the rules that have none.
    """

    name: RuleName
    attribute: Attribute | Literal["Number/Position"]
    parameter: int = 0


Rules = tuple[Rule, Rule, Rule, Rule]
"""The rules of one component: on Number or Position, on Type, on Size, on Color."""

Edits = tuple[tuple[int, Attribute], ...]
"""Which attributes of which components tell a candidate from the answer."""


Render = Literal["own", "official"]
"""How panels are drawn: ours tells all sizes apart and can be enlarged, ``official`` has the pixels of official files."""


@dataclass(frozen=True, slots=True)
class Difficulty:
    """How hard problems are, where that is not as published."""

    changing: int | None = None
    """Of each component, how many of number or position, shape, size and color (1 to 4) follow a rule that changes them along
    the row, as far as the component can bear it; None as published, where rules are drawn."""
    values: int | None = None
    """How many values shape, size and color take at most (4 to 10); None for all."""

    def __post_init__(self) -> None:
        for name, value, least, most in (("changing", self.changing, 1, 4), ("values", self.values, 4, 10)):
            if value is not None and not least <= value <= most:
                raise ValueError(f"{name} must be from {least} to {most}, not {value}")


@dataclass(frozen=True, slots=True, repr=False)
class Generated:
    """A problem that ``generate`` makes again from its values other than ``render``."""

    configuration: str
    seed: int
    style: Style = "iraven"
    render: Render = "own"
    """Not what the problem is but how it is shown."""
    difficulty: Difficulty | None = None
    """None as published."""

    def __repr__(self) -> str:
        """What a puzzle's identity is made of: all but how it is shown, and the difficulty only where there is one."""
        difficulty = f", difficulty={self.difficulty}" if self.difficulty else ""
        return f"Generated(configuration={self.configuration!r}, seed={self.seed!r}, style={self.style!r}{difficulty})"


@dataclass(frozen=True, slots=True)
class Imported:
    """A problem in the official format: the path of its npz (the XML lies beside it) and both files' content hash."""

    render: ClassVar[Render] = "official"

    path: str
    digest: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A matrix of eight context panels in reading order, eight candidates, and what is known about them."""

    configuration: Configuration
    context: tuple[Panel, ...]
    candidates: tuple[Panel, ...]
    target: int
    """Index of the answer, 0..7 (shown to players as 1..8)."""
    rules: tuple[Rules, ...]
    """One tuple per component."""
    style: Style
    source: Generated | Imported
    edits: tuple[Edits, ...] = ()
    """Per candidate what was changed; RAVEN's own answer sets do not say."""

    @property
    def answer(self) -> Panel:
        """The panel that completes the matrix."""
        return self.candidates[self.target]

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All sixteen panels: the context, then the candidates."""
        return self.context + self.candidates

    @property
    def solution(self) -> tuple[Panel, ...]:
        """The nine panels of the completed matrix."""
        return (*self.context, self.answer)


def is_noise(rules: Rules, attribute: EntityAttribute, *, uniform: bool) -> bool:
    """Whether a Constant attribute is in truth random.

    Rules on Number, and Arithmetic on Position, draw the entities of a panel anew; where the component is not uniform, a
    "constant" attribute then differs from entity to entity and no distractor ever touches it.
    """
    place = rules[0]
    redrawn = place.attribute == "Number" or (place.attribute == "Position" and place.name == "Arithmetic")
    constant = rules[("Type", "Size", "Color").index(attribute) + 1].name == "Constant"
    return constant and redrawn and not uniform
