"""The names of everything that a KidGym frame can show; a name is a sprite's file name within a skin.

Each name is ``family/member`` (``animal/cat``, ``key/blue``) or a single word (``wall``). The list follows the published
asset list, but calls a thing by what is drawn (a shuttlecock, not ``badminton``).
"""

from __future__ import annotations

from typing import Final

ITEMS: Final[dict[str, tuple[str, ...]]] = {
    "animal": (
        "cat", "chick", "cow", "dog", "elephant", "giraffe", "horse", "monkey", "mouse", "pig", "rabbit", "sheep",
        "snail", "tortoise",
    ),
    "fruit": (
        "apple", "banana", "cherry", "grape", "kiwifruit", "lemon", "orange", "peach", "pineapple", "strawberry",
        "watermelon",
    ),
    "food": ("cake", "chicken_leg", "egg", "hamburger", "hot_dog", "pizza", "sandwich", "sushi"),
    "toy": (
        "balloon", "basketball", "doll", "kite", "shuttlecock", "soccer_ball", "teddy_bear", "toy_car", "toy_plane",
        "toy_train", "yo_yo",
    ),
}  # fmt: skip
"""Item names by type; a sprite is ``type/name``."""

QUARTERED: Final = ("cat", "chick", "cow", "dog", "elephant", "fish", "monkey", "pig", "sheep", "tortoise")
"""Animals that are cut in quarters, ``quarter/NAME/1`` to ``4`` (upper left, upper right, lower left, lower right)."""

PILED: Final[dict[str, tuple[str, ...]]] = {
    "fruit": ("apple", "lemon", "orange", "strawberry", "watermelon"),
    "food": ("cake", "egg", "hamburger", "pizza", "sushi"),
}
"""Items that lie in piles of one to three, ``pile/NAME/1`` to ``3``."""

BASKET_COLORS: Final = ("blue", "green", "red", "yellow")
LOCK_COLORS: Final = ("blue", "red", "yellow")
"""Colors of keys (``key/blue``) and doors (``door/blue``)."""

ROMAN: Final = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII")
"""Position markers ``roman/1`` to ``roman/8`` as texts write them."""

SLOTS: Final = ("A", "B", "C", "D")
"""The backpack's slots as texts write them."""

BACKGROUNDS: Final = ("farm", "shop", "canteen", "toy_house", "park", "gallery", "maze")
SCENE_OF_TYPE: Final = {"animal": "farm", "fruit": "shop", "food": "canteen", "toy": "toy_house"}
"""The background on which items of a type appear."""

SPRITES: Final[tuple[str, ...]] = (
    *(f"{kind}/{name}" for kind, names in ITEMS.items() for name in names),
    "animal/fish",
    *(f"quarter/{name}/{quarter}" for name in QUARTERED for quarter in range(1, 5)),
    *(f"pile/{name}/{count}" for names in PILED.values() for name in names for count in range(1, 4)),
    *(f"basket/{color}" for color in BASKET_COLORS),
    *(f"{thing}/{color}" for thing in ("key", "door") for color in LOCK_COLORS),
    # Right triangles that fill half a cell, named by the corner of the right angle in the order of the quarters.
    *(f"tile/{corner}" for corner in range(1, 5)),
    *(f"roman/{number}" for number in range(1, 9)),
    "wall",
    "chest",
    "diamond",
)
"""Every sprite that the twelve tasks use."""


_WORDS: Final = {"cherry": "pair of cherries", "grape": "bunch of grapes", "yo_yo": "yo-yo"}
"""Names that texts write otherwise than with blanks for underscores."""


def words(name: str) -> str:
    """An item's name as texts write it: ``food/chicken_leg`` -> ``chicken leg``."""
    member = name.rpartition("/")[2]
    return _WORDS.get(member, member.replace("_", " "))


def counted(number: int, name: str) -> str:
    """A number of items as texts write it: ``2 apple(s)``, ``5 strawberries``."""
    word = words(name)
    if word.endswith("y"):
        return f"{number} {word if number == 1 else word.removesuffix('y') + 'ies'}"
    return f"{number} {word}(s)"
