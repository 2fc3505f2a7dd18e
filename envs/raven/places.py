"""The names of the places in a panel."""

from __future__ import annotations

_ROWS, _COLUMNS = ("top", "middle", "bottom"), ("left", "center", "right")
NINE = tuple("center" if (r, c) == ("middle", "center") else f"{r}-{c}" for r in _ROWS for c in _COLUMNS)
FOUR = ("top-left", "top-right", "bottom-left", "bottom-right")

PLACES: dict[str, tuple[str, ...]] = {
    "Center_Single": ("center",),
    "Distribute_Four": FOUR,
    "Distribute_Nine": NINE,
    "Left_Center_Single": ("left part",),
    "Right_Center_Single": ("right part",),
    "Up_Center_Single": ("top part",),
    "Down_Center_Single": ("bottom part",),
    "Out_Center_Single": ("outer part",),
    "In_Center_Single": ("inner part",),
    "In_Distribute_Four": tuple(f"{corner} of the inner part" for corner in FOUR),
}
"""By layout, the name of every slot."""
