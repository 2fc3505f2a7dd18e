"""Names without meaning for drawn domains: pairs of plain words, or words that do not exist."""

from __future__ import annotations

import random
from typing import Literal

Kind = Literal["words", "nonsense"]

_FIRST = """
    amber ashen bold brass brief bright broad calm clear cold coral crisp dark deep dim dry dull early faint fair fast firm
    flat fresh gentle gray green heavy high hollow ivory keen late level light long loose low mild narrow neat old open
    pale plain quick quiet rough round sharp short silver slow small smooth soft steady still straight tall thin warm wide
"""
_SECOND = """
    anchor arch arrow barrel basket beacon bell bench bowl branch bridge brook bucket button candle canvas chain chest
    circle cloud column corner crown curtain door drum engine fence field flag flute forest fountain gate glass harbor
    hill hinge island kettle ladder lamp lantern ledge lever meadow mill mirror needle orchard paddle path pebble pillar
    plate pond post ribbon ridge ring river rope sail shelf shore signal spring stone table tower trail tunnel valley wall
    wheel window
"""
_SYLLABLE = ("b br d dr f fl g gr k kl l m n p pl r s st t tr v z", "a e i o u ai ou", "l m n r s x")
"""What a syllable begins with, its vowel, and what it may end with."""


def draw_names(count: int, kind: Kind, rng: random.Random) -> list[str]:
    """So many different names.

    Raises:
        ValueError: there are not so many.
    """
    first, second = _FIRST.split(), _SECOND.split()
    most = len(first) * len(second) if kind == "words" else 100_000
    if count > most:
        raise ValueError(f"there are at most {most} names, not {count}")
    if kind == "words":
        pairs = []
        for pair in rng.sample(range(most), count):
            after, before = divmod(pair, len(first))
            pairs.append(f"{first[before]} {second[after]}".capitalize())
        return pairs
    onsets, vowels, codas = (part.split() for part in _SYLLABLE)
    codas.append("")
    names: dict[str, None] = {}
    while len(names) < count:
        name = ""
        for _ in range(rng.randint(2, 3)):
            name += rng.choice(onsets) + rng.choice(vowels) + rng.choice(codas)
        names[name.capitalize()] = None
    return list(names)
