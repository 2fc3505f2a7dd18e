"""Success of the shortcut players over 400 games a cell, as ``python -m benchmarks.kidgym_shortcuts 400`` printed it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SHORTCUT_SUCCESS: Final[Mapping[str, Mapping[str, tuple[float, float, float]]]] = {
    "first_option": {
        "CL": (0.253, 0.055, 0.013),
        "SE": (0.263, 0.065, 0.015),
        "SO": (0.522, 0.128, 0.055),
        "MA": (0.215, 0.028, 0.0),
        "FI": (0.23, 0.085, 0.048),
        "PU": (0.268, 0.107, 0.052),
        "PL": (0.26, 0.125, 0.117),
        "CO": (0.092, 0.07, 0.045),
        "DMA": (0.195, 0.087, 0.003),
        "MMA": (0.02, 0.005, 0.0),
        "MDE": (0.237, 0.21, 0.105),
        "MFI": (0.285, 0.092, 0.052),
        "CL-balanced": (0.055, 0.018, 0.0),
        "SO-balanced": (0.515, 0.158, 0.058),
        "FI-balanced": (0.242, 0.075, 0.045),
        "PU-balanced": (0.273, 0.08, 0.04),
        "MA-balanced": (0.007, 0.0, 0.0),
        "CO-balanced": (0.0, 0.0, 0.0),
        "DMA-balanced": (0.013, 0.0, 0.0),
        "MMA-balanced": (0.005, 0.0, 0.0),
        "MDE-balanced": (0.285, 0.155, 0.115),
        "MFI-balanced": (0.247, 0.077, 0.04),
    },
    "ignores_rule": {
        "SO": (0.448, 0.497, 0.492),
        "PL": (0.0, 0.0, 0.0),
        "DMA": (0.142, 0.05, 0.0),
        "SO-balanced": (0.562, 0.172, 0.025),
        "DMA-balanced": (0.03, 0.0, 0.003),
    },
    "any_listed": {
        "MDE": (1.0, 0.522, 0.287),
        "MDE-balanced": (0.26, 0.195, 0.135),
    },
    "right_kind": {
        "FI": (0.907, 0.465, 0.185),
        "MDE": (0.245, 0.172, 0.13),
        "MFI": (0.907, 0.497, 0.19),
        "FI-balanced": (0.532, 0.35, 0.27),
        "MDE-balanced": (0.245, 0.172, 0.128),
        "MFI-balanced": (0.482, 0.338, 0.258),
    },
    "not_on_board": {
        "FI": (0.275, 0.072, 0.052),
        "PU": (1.0, 0.512, 0.19),
        "MFI": (0.245, 0.1, 0.04),
        "FI-balanced": (0.235, 0.062, 0.045),
        "PU-balanced": (0.233, 0.07, 0.048),
        "MFI-balanced": (0.26, 0.102, 0.075),
    },
    "right_and_missing": {
        "FI": (1.0, 0.482, 0.182),
        "MFI": (1.0, 0.482, 0.165),
        "FI-balanced": (0.512, 0.378, 0.233),
        "MFI-balanced": (0.52, 0.328, 0.237),
    },
    "fills_evenly": {
        "CL": (0.43, 0.18, 0.043),
        "CL-balanced": (0.1, 0.01, 0.003),
    },
    "remembers_label": {
        "MMA": (1.0, 1.0, 1.0),
        "MMA-balanced": (0.235, 0.237, 0.242),
    },
    "skips_the_beginning": {
        "MMA": (0.347, 0.345, 0.383),
        "MFI": (1.0, 1.0, 1.0),
        "MMA-balanced": (0.215, 0.247, 0.25),
        "MFI-balanced": (0.3, 0.102, 0.033),
    },
    "nearest_pile": {
        "CO": (0.417, 0.468, 0.458),
        "CO-balanced": (0.035, 0.03, 0.043),
    },
    "whatever_works": {
        "MA": (1.0, 1.0, 1.0),
        "DMA": (1.0, 1.0, 1.0),
        "MMA": (0.31, 0.352, 0.38),
        "MA-balanced": (0.048, 0.007, 0.007),
        "DMA-balanced": (0.06, 0.018, 0.005),
        "MMA-balanced": (0.0, 0.0, 0.0),
    },
    "walks_over_things": {
        "MA": (1.0, 0.843, 0.728),
        "DMA": (1.0, 0.863, 0.657),
        "MMA": (1.0, 0.725, 0.61),
    },
}
"""By shortcut and task: levels 1, 2, 3."""
