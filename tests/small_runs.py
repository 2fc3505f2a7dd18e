"""Small runs of every suite in memory, played by built-in players in the name of models, with failures and gaps."""

import asyncio
import dataclasses
import functools
from concurrent.futures import ThreadPoolExecutor

from evals.conversation import Record
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.players import BUILT_IN_PLAYERS
from evals.suite import Suite, ledger_columns, plan_for, play_episode
from evals.suites.kidgym.suite import KidGymSuite
from evals.suites.kumo.suite import KumoSuite
from evals.suites.multistar.suite import MultiStarSuite
from evals.types import Episode, Reply
from tests.toy import ToySuite

HOSTILE = "</pre><script>document.title='hit'</script>\x1b[2J\u202e & 50 % _x_"
MODELS = ("qwen2_5_vl_72b_instruct", "internvl3_78b")

SUITES: dict[str, Suite] = {
    "toy": ToySuite(episodes=4),
    "kumo": KumoSuite(domains=["medical", "fantasy"], tasks_per_domain=2, repeats=2),
    "kidgym": KidGymSuite(tasks=["CL", "CO", "MFI", "SO"], modes=["zero_shot", "cot"], episodes=1, resolution=32),
    "multistar": MultiStarSuite(configurations=["center_single"], puzzles=1, priors=["none", "model"]),
    "direct": MultiStarSuite(subtask="direct", configurations=["center_single"], puzzles=1),
}


class Hostile:
    """Answers with markup, terminal codes and marks of writing direction."""

    async def reply(self, turn):
        return Reply(HOSTILE, reasoning=HOSTILE, prompt_tokens=1_234_567, completion_tokens=89, cost=0.01)


class Random:
    """As the built-in player, at a price."""

    async def reply(self, turn):
        reply = await BUILT_IN_PLAYERS["random"].reply(turn)
        return dataclasses.replace(reply, prompt_tokens=1_234_567, completion_tokens=89, reasoning_tokens=7, cost=0.012)


@functools.cache
def small_run(name: str, players: tuple[str, ...] = (*MODELS, "oracle"), failed: int = 2, missing: int = 1) -> RunData:
    """A run in which the first player fails ``failed`` episodes and has not played the last ``missing`` ones."""
    suite = SUITES[name]
    plan = plan_for(suite, dict.fromkeys(players, ""))
    first = [episode for episode in plan if episode.player == players[0]]
    broken = {episode.id: number for number, episode in enumerate(first[:failed])}
    left_out = {episode.id for episode in first[len(first) - missing :]}
    records = [
        Record(episode, None, f"PromptTooLong: by {1000 + broken[episode.id]} tokens", (), 1.0, "model")
        if episode.id in broken
        else _play(suite, episode)
        for episode in plan
        if episode.id not in left_out
    ]
    return RunData.of_tables(plan_to_table(plan), records_to_table(records, ledger_columns(suite)))


def _play(suite: Suite, episode: Episode) -> Record:
    player = Hostile() if episode.player == "hostile" else BUILT_IN_PLAYERS.get(episode.player, Random())
    with ThreadPoolExecutor(1) as other:  # browser tests keep an event loop running on this thread
        return other.submit(asyncio.run, play_episode(suite, episode, player)).result()
