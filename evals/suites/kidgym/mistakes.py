"""What went wrong in a lost game: what was refused and why, and the mistake after which it could not be won any more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from envs.kidgym import Action, World, fewest_steps
from envs.kidgym.tasks.counting import Counting
from envs.kidgym.tasks.decode_maze import DecodeMaze
from envs.kidgym.tasks.filling import Filling
from envs.kidgym.tasks.memory_decode import MemoryDecode
from envs.kidgym.tasks.placement import RING, Placement
from envs.kidgym.tasks.puzzle import Puzzle
from envs.kidgym.tasks.sorting import Sorting

BLOCKED, MISFIT, FULL, UNKNOWN = "way blocked", "does not fit", "backpack full", "not offered"
REFUSALS: Final = (BLOCKED, MISFIT, FULL, UNKNOWN)
"""Why an action is refused: no way leads there, the key or the basket is another one's, the backpack has no room, or (where
players write actions themselves) the game does not offer it."""

UNOFFERED: Final = Action("", "unoffered")
"""Stands for an action that was written, but not offered: it wastes a step."""


class Step(NamedTuple):
    """An action, and the game before it."""

    world: World
    action: Action
    accepted: bool

    @property
    def taken(self) -> Action | None:
        """What the game was given to do."""
        return None if self.action == UNOFFERED else self.action


@dataclass(frozen=True)
class Slip:
    """The step that lost a game."""

    step: int
    """The first after which the game could not be won any more, from 1."""
    kind: str


def refusal(world: World, action: Action) -> str:
    """Why ``action`` is refused in ``world``: one of ``REFUSALS``."""
    if action == UNOFFERED:
        return UNKNOWN
    if action.verb in ("pick", "obtain", "choose") and not world.has_room:
        return FULL
    return MISFIT if world.copy().walk_to(action.cell) else BLOCKED


def slip(steps: Sequence[Step]) -> Slip | None:
    """The step after which a game could not be won any more, None if it still can be.

    What cannot be won stays so, so that few moments need to be searched.
    """
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) // 2
        if _winnable(steps[middle]):
            low = middle + 1
        else:
            high = middle
    if low == len(steps):
        return None
    lost = steps[low]
    if not lost.accepted:
        kind = refusal(lost.world, lost.action)
        return Slip(low + 1, _misfit(lost) if kind == MISFIT else kind)
    rule = _RULES.get(lost.world.name)
    if rule is None:
        return Slip(low + 1, "wrong action")
    return Slip(low + 1, rule(lost))


def miscount(world: World) -> int | None:
    """By how many the backpack of a finished counting game is over (or, negative, under) the number asked for, in all.

    None for other tasks, for games that ended without a declaration, and for balanced ones, which ask for several numbers.
    """
    if not isinstance(world, Counting) or world.balanced or not world.declared:
        return None
    return world.collected - world.target


def _winnable(step: Step) -> bool:
    there = step.world.copy()
    there.take(step.taken)
    return there.success or fewest_steps(there) is not None


# --- kinds of slips --------------------------------------------------------------------------------------------------


def _misfit(step: Step) -> str:
    """A key or a basket that does not fit; in DMA, the door of the key's own color is the rule not applied."""
    world, action = step.world, step.action
    if isinstance(world, DecodeMaze):
        key, door = (item.sprite.partition("/")[2] for item in (world.backpack[action.slot], world.scene[action.cell]))
        return "key on the door of its own color" if key == door else "key on another wrong door"
    return "wrong key" if action.verb == "unlock" else "wrong basket"


def _selection(step: Step) -> str:
    return "item that was not shown"


def _sorting(step: Step) -> str:
    world, action = step.world, step.action
    assert isinstance(world, Sorting)
    place, animal = world.positions.index(action.cell), world.backpack[action.slot].sprite
    reversed_order = not world.balanced and world.answer[::-1][place] == animal
    return "order not reversed" if reversed_order else "another order"


def _placement(step: Step) -> str:
    world, cell = step.world, step.action.cell
    assert isinstance(world, Placement)
    around = list(RING.values())
    given = around.index(RING[world.direction])
    kinds = {
        given: "direction not inverted",
        (given + world.turn) % 8: "direction not inverted",
        (given + 4) % 8: "turn forgotten",
        (given + 4 - world.turn) % 8: "turned the other way",
    }
    return kinds.get(around.index(cell), "another direction")


_LEFT_RIGHT: Final = {1: 2, 2: 1, 3: 4, 4: 3}
_UP_DOWN: Final = {1: 3, 3: 1, 2: 4, 4: 2}


def _filling(step: Step) -> str:
    world, action = step.world, step.action
    assert isinstance(world, Filling)
    piece = world.backpack[action.slot].sprite
    needed = world.missing[world.blanks.index(action.cell)]
    animal, animal_needed = piece.rpartition("/")[0], needed.rpartition("/")[0]
    if animal != animal_needed:
        return "piece of another animal"
    corner, right = int(piece[-1]), int(needed[-1])
    if _LEFT_RIGHT[right] == corner:
        return "mirror twin"
    if _UP_DOWN[right] == corner:
        return "upside down"
    return "half turn" if isinstance(world, Puzzle) else "opposite quarter"


def _counting(step: Step) -> str:
    world, action = step.world, step.action
    assert isinstance(world, Counting)
    if action.verb == "declare":  # with too many of anything, the game was lost before
        return "declared too few"
    name, _, size = world.scene[action.cell].sprite.removeprefix("pile/").rpartition("/")
    return "collected too many" if int(size) > world.lacking(name) else "number out of reach"


def _memory_maze(step: Step) -> str:
    return "wrong chest" if step.world.scene[step.action.cell].sprite == "chest" else "detour"


def _memory_decode(step: Step) -> str:
    world = step.world
    assert isinstance(world, MemoryDecode)
    chosen = world.scene[step.action.cell].sprite
    if chosen in {right for _, right in world.table}:
        return "partner of another entry"
    return "entry, not partner" if chosen in {left for left, _ in world.table} else "item that was not in the table"


def _maze(step: Step) -> str:
    return "detour"


_RULES: Final[Mapping[str, Callable[[Step], str]]] = {
    "SE": _selection,
    "SO": _sorting,
    "MA": _maze,
    "FI": _filling,
    "PU": _filling,
    "PL": _placement,
    "CO": _counting,
    "DMA": _maze,
    "MMA": _memory_maze,
    "MDE": _memory_decode,
    "MFI": _filling,
}
