"""Which tokens of a prompt a prefix cache serves: of attention, and of hybrid models as vLLM 0.32 keeps their states.

Attention can go on from any block. A hybrid model can go on only where a state was stored: vLLM stores one at the end of a
prompt's last whole block, and where it saw that the prompt shares more with an earlier one than any state covers
(``Scheduler._mamba_block_aligned_split``). At other ends of blocks it stops too, but forgets their states
(``MambaManager.reachable_block_mask``), and while it writes it stores none. So a prefix that many prompts share is computed for
the first, computed again for the second, which stores its state, and served from the third on.

    >>> shared, ends = tuple(range(250)), ((1001,) * 100, (1002,) * 100, (1003,) * 100)
    >>> attention, hybrid = AttentionCache(100), HybridCache(100)
    >>> [attention.ask(shared + end) for end in ends], [hybrid.ask(shared + end) for end in ends]
    ([0, 200, 200], [0, 0, 200])

The cache is unbounded and prompts are asked one after another: of a run, this is what its engine can do at best.
"""

from __future__ import annotations

from collections.abc import Sequence

Tokens = Sequence[int]


class AttentionCache:
    """Keys and values of all whole blocks of all prompts."""

    def __init__(self, block: int) -> None:
        """``block`` is its size in tokens."""
        self.block = block
        self._blocks: set[int] = set()

    def ask(self, prompt: Tokens, written: Tokens = ()) -> int:
        """Tokens of a prompt that the cache serves; afterwards it holds the prompt and what was written after it."""
        hit = self.shared(prompt)
        self._blocks.update(prefixes([*prompt, *written], self.block))
        return hit

    @property
    def size(self) -> int:
        """Prefixes that it holds."""
        return len(self._blocks)

    def shared(self, prompt: Tokens) -> int:
        """Tokens of whole blocks at the beginning of a prompt that earlier ones had too; its last token is always computed."""
        served = 0
        for prefix in prefixes(prompt[:-1], self.block):
            if prefix not in self._blocks:
                break
            served += self.block
        return served


class HybridCache:
    """Keys and values as in ``AttentionCache``, and a state wherever computing a prompt stopped."""

    def __init__(self, block: int, unit: int | None = None, step: int = 8192) -> None:
        """An empty cache.

        Args:
            block: Its size in tokens.
            unit: Tokens that prompts are compared by (vLLM's ``prefix_match_unit``), of which a block is a multiple; then a
                state is also stored at the last of these before a prompt's end.
            step: Most tokens that are computed at once (``max_num_batched_tokens``).
        """
        self.block, self.unit, self.step = block, unit or block, step
        self._attention = AttentionCache(self.unit)
        self._states: set[int] = set()

    def ask(self, prompt: Tokens, written: Tokens = ()) -> int:
        """Tokens of a prompt that the cache serves; afterwards it holds what the prompt left."""
        names = list(prefixes(prompt, self.unit))
        shared = self._attention.ask(prompt, written)
        hit = self._stored(names, shared)
        for end in self._stops(len(prompt), hit, shared):
            self._states.add(names[end // self.unit - 1])
        return hit

    @property
    def size(self) -> int:
        """Prefixes that it holds."""
        return self._attention.size

    def missing(self, prompt: Tokens, before: Sequence[range] = ()) -> int:
        """Where a state is worth storing before a prompt is asked: the end of what it shares; 0 if a state is there.

        Args:
            prompt: What will be asked.
            before: Tokens that cannot be parted, those of one picture each.
        """
        end = self._attention.shared(prompt)
        for place in before:
            if place.start < end < place.stop:
                end = place.start // self.unit * self.unit
        # A state is stored at the end of whole units only, and of a prompt with one token more.
        return end if end > self._stored(list(prefixes(prompt, self.unit)), end) else 0

    def _stored(self, names: Sequence[int], shared: int) -> int:
        """The last position with a state, within what is shared."""
        for end in range(shared, 0, -self.unit):
            if names[end // self.unit - 1] in self._states:
                return end
        return 0

    def _stops(self, length: int, start: int, shared: int) -> list[int]:
        """Where computing a prompt stops at a position whose state is stored."""
        stops: list[int] = []
        last_block = (length - 1) // self.block * self.block
        last_unit = (length - 1) // self.unit * self.unit
        while start < length:
            end = min(length, start + self.step)
            whole_blocks = end // self.block * self.block
            moves_on = whole_blocks > start or self.block <= self.step
            if end < length and moves_on:
                end = whole_blocks
            candidates = [last_block, last_unit]
            if start % self.block:
                candidates.append((start // self.block + 1) * self.block)
            if start < shared < end:
                candidates.append(start + (shared - start) // self.block * self.block)
            end = min((stop for stop in candidates if start < stop < end), default=end)
            # vLLM keeps the states that a later prompt is known to go on from (``prefix_cache_retention_interval=0``).
            if end in (last_block, last_unit, shared // self.block * self.block):
                stops.append(end)
            start = end
        return stops


def prefixes(tokens: Tokens, block: int) -> list[int]:
    """A name for each prefix of whole blocks, the shortest first."""
    names: list[int] = []
    name = 0
    for start in range(0, len(tokens) - block + 1, block):
        name = hash((name, tuple(tokens[start : start + block])))
        names.append(name)
    return names
