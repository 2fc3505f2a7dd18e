"""What a prefix cache can serve of a run's prompts, said before anything is loaded (``raycade plan``).

A few games are played as perfect play would, and their prompts go one after another through a model of vLLM's cache
(``cluster/prefix_cache``). No tokenizer is needed: four characters are taken for a token, as in the rest of a plan, and a
picture has as many as the model counts.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.errors import UserError
from cluster.models.hardware import model_of
from cluster.models.hub import TINY, files_of
from cluster.models.table import Model
from cluster.prefix_cache.block_size import CPU_BLOCK, GPU_BLOCK, block_tokens
from cluster.prefix_cache.predict import AttentionCache, HybridCache
from evals.players import OraclePlayer, RandomPlayer
from evals.suite import Suite, picture_tokens, play_episode
from evals.tables import Cell, Table
from evals.types import Chat, Episode, Player, Reply, Turn

TASKS = 4
"""Tasks and levels of a suite that are looked at, spread over its plan, in all their modes."""
GAMES = 3
"""Games of each; the last one counts, since a hybrid model is served a beginning from the third time on."""
TURN_TOKENS = 5
"""What a template writes around each message."""
STATE_IN_EVERY_LAYER = frozenset({"qwen3_5", "qwen3_5_moe"})
"""Families whose layers each have attention or a state; others have layers with neither, which rows do not count apart."""
UNIT = 32
"""``prefix_match_unit`` that is compared where the settings have none."""


@dataclass(frozen=True)
class Blocks:
    """How a model's prefix cache is divided."""

    tokens: int
    hybrid: bool = False
    rule: str = ""
    """Where the number comes from, for people."""


def blocks_of(engine: Mapping[str, Any]) -> Blocks | None:
    """The blocks of the cache of vLLM's engine with these settings; None where the model is not known.

    Args:
        engine: The section ``model.engine``.
    """
    model = model_of(engine)
    if model is None and engine["model"] != TINY:
        return None
    # The tiny model, which is no row of the table, runs on the CPU.
    smallest = CPU_BLOCK if model is None else GPU_BLOCK
    rule = "vLLM's default; some attention kernels take more"
    asked = engine.get("block_size")
    if asked:
        smallest = asked
        rule = "model.engine.block_size"
    if model is None or model.family.cache != "hybrid":
        return Blocks(smallest, rule=rule)
    return _hybrid_blocks(engine, model, smallest)


def _hybrid_blocks(engine: Mapping[str, Any], model: Model, smallest: int) -> Blocks | None:
    """The blocks of a hybrid model, which are as long as a layer's state is large; None where the table lacks its sizes."""
    passed = engine.get("vllm") or {}
    try:
        config: Mapping[str, Any] = files_of(str(engine["model"]), False, engine.get("revision")).config
    except UserError:
        config = {}
    is_fp8 = str(passed.get("kv_cache_dtype", "")).startswith("fp8")
    number = 1 if is_fp8 else 2
    gpus = engine.get("tensor_parallel_size") or 1
    if config:
        tokens = block_tokens(config, smallest=smallest, gpus=gpus, cache_bytes=number)
        if tokens is not None:
            return Blocks(tokens, hybrid=True, rule="as long as a layer's state is large, from the model's config")
    tokens = _block_of_row(model, smallest, gpus, number)
    if not tokens:
        return None
    return Blocks(tokens, hybrid=True, rule="about as long as a layer's state is large, from the table of models")


def _block_of_row(row: Model, smallest: int, gpus: int, number: int) -> int:
    """The block of a hybrid model whose config is not here; its row has the size of all states, in MiB; 0 if unknown."""
    shape = row.shape
    layers = shape.layers - (shape.whole or 0)
    if row.family.name not in STATE_IN_EVERY_LAYER or not shape.state:
        return 0
    state = shape.state * 2**20 / layers / gpus
    token = 2 * max(1, shape.kv_heads // gpus) * shape.head_dim * number
    return smallest * math.ceil(state / (smallest * token))


class _Listener:
    """Perfect play, or chance in a suite without it, that notes what it is asked and says."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self.heard: list[tuple[Chat, str]] = []

    async def reply(self, turn: Turn) -> Reply:
        reply = await self._player.reply(turn)
        self.heard.append((turn.chat, reply.text))
        return reply


def _prompts_of_sample(suite: Suite, plan: Sequence[Episode]) -> list[tuple[list[int], list[int], bool]]:
    """Prompts of some games with what was written after each, and whether it counts; none where no look is possible."""
    found: list[tuple[list[int], list[int], bool]] = []
    for episode, counts in _sample(plan):
        try:
            # None is said by games that need more than this process, such as those of another program.
            if asyncio.run(suite.first_turn(episode)) is None:
                continue
        except Exception:  # a suite of somebody else may raise anything
            continue
        found += [(prompt, reply, counts) for prompt, reply in _prompts_of(suite, episode)]
    return found


def _prompts_of(suite: Suite, episode: Episode) -> list[tuple[list[int], list[int]]]:
    """Prompts and replies of one episode as numbers, equal ones for equal pieces; none where nobody can play it here."""
    for player in (OraclePlayer(), RandomPlayer()):
        listener = _Listener(player)
        try:
            played = asyncio.run(play_episode(suite, episode, listener))
        except Exception:  # a suite of somebody else may raise anything
            continue
        if played.outcome is not None:
            return [(_tokens(chat), _pieces(reply)) for chat, reply in listener.heard]
    return []


def _tokens(chat: Chat) -> list[int]:
    found: list[int] = []
    for message in chat:
        found += [hash(message.role)] * TURN_TOKENS
        for part in message.parts:
            found += _pieces(part) if isinstance(part, str) else [hash(part.key)] * max(1, round(picture_tokens(part)))
    return [*found, *[hash("assistant")] * TURN_TOKENS]


def _pieces(text: str) -> list[int]:
    return [hash(text[start : start + 4]) for start in range(0, len(text), 4)]


def _sample(plan: Sequence[Episode]) -> Iterator[tuple[Episode, bool]]:
    """Episodes to look at, each with whether it counts: some games of some tasks, in all modes and repeats."""
    tasks: dict[tuple[str, str], dict[int, list[Episode]]] = {}
    for episode in plan:
        games = tasks.setdefault((episode.task, episode.level), {})
        if len(games) < GAMES or episode.index in games:
            games.setdefault(episode.index, []).append(episode)
    chosen = list(tasks.values())
    apart = max(1, math.ceil(len(chosen) / TASKS))
    for games in chosen[::apart]:
        last = list(games)[-1]
        for index, episodes in games.items():
            counts = index == last
            for episode in episodes:
                yield episode, counts


def _served(
    prompts: Sequence[tuple[list[int], list[int], bool]], blocks: Blocks, unit: int | None, step: int, first: bool
) -> float:
    """The share of the prompt tokens that count which the cache serves.

    Args:
        prompts: With what was written after each, and whether it counts.
        blocks: Of the cache.
        unit: ``prefix_match_unit``.
        step: Most tokens of one step.
        first: Whether beginnings that are shared are asked for on their own first.
    """
    cache: HybridCache | AttentionCache
    cache = HybridCache(blocks.tokens, unit, step) if blocks.hybrid else AttentionCache(blocks.tokens)
    served = total = 0
    for prompt, reply, counts in prompts:
        if first and isinstance(cache, HybridCache):
            end = cache.missing(prompt)
            if end:
                cache.ask(prompt[: end + 1])
        hit = cache.ask(prompt, reply)
        served += hit * counts
        total += len(prompt) * counts
    return served / max(1, total)


def cached_table(engine: Mapping[str, Any] | None, suite: Suite, plan: Sequence[Episode]) -> Table | None:
    """The share of each suite's prompt tokens that vLLM's cache serves at best; None where the model is not known.

    Args:
        engine: The section ``model.engine``.
        suite: What is played.
        plan: The model's episodes.
    """
    if engine is None or engine.get("type") != "vllm":
        return None
    blocks = blocks_of(engine)
    if blocks is None:
        return None
    passed = engine.get("vllm") or {}
    title = f"Prefix cache of {engine['model']}: blocks of {blocks.tokens:,} tokens"
    columns: tuple[str, ...] = ("suite", "prompts looked at", "tokens of each", "served")
    if passed.get("enable_prefix_caching") is False:
        return Table(
            "prefix_cache", title, columns, (), ("model.engine.vllm.enable_prefix_caching=false: nothing is.",)
        )
    unit, first = passed.get("prefix_match_unit"), bool(engine.get("shared_beginnings"))
    step = engine.get("max_num_batched_tokens") or 8192
    # What the settings for hybrid models would change is shown where they are not set.
    other = blocks.hybrid and not (unit and first)
    rows: list[tuple[Cell, ...]] = []
    nothing: list[str] = []
    for part in suite.parts:
        episodes = [episode for episode in plan if episode.suite == part.name]
        prompts = _prompts_of_sample(part, episodes)
        counted = [len(prompt) for prompt, _, counts in prompts if counts]
        if not counted:
            continue
        share = _served(prompts, blocks, unit, step, first)
        row: list[Cell] = [part.name, len(counted), round(sum(counted) / len(counted)), f"{share:.0%}"]
        if other:
            row.append(f"{_served(prompts, blocks, unit or UNIT, step, True):.0%}")
        rows.append(tuple(row))
        if not share:
            nothing.append(part.name)
    settings = ""
    if other:
        columns = (*columns, "with shared beginnings")
        settings = f"model.engine.vllm.prefix_match_unit={unit or UNIT} model.engine.shared_beginnings=true"
    return Table("prefix_cache", title, columns, tuple(rows), tuple(_notes(blocks, settings, nothing)))


def _notes(blocks: Blocks, settings: str, nothing: Sequence[str]) -> Iterator[str]:
    """What the table means.

    Args:
        blocks: Of the cache.
        settings: Those for hybrid models, where they would change something.
        nothing: The suites that the cache serves nothing of.
    """
    yield f"Blocks: {blocks.rule}. Only whole ones are served."
    yield (
        f"Served: the most that these prompts get (one replica, nothing evicted), of perfect play of the third game of up to "
        f"{TASKS} tasks and levels. In growing chats a model that plays longer gets a larger share."
    )
    if settings:
        yield f"A state is served to the third prompt that shares it, with {settings} to the second."
    if nothing:
        remedy = f"; try {settings}" if settings else ""
        yield f"Warning: the cache serves nothing of {', '.join(nothing)}{remedy}."
