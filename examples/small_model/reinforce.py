"""``python -m examples.small_model.reinforce MODEL OUT``: train a small model further by playing, and show that it got better.

Games come through Gymnasium (``raycade.gymnasium``) with success less regret as reward; none is a game of the evaluation.
The policy is the probability of each option's name behind ``<ANSWER>``; it is improved by REINFORCE: each game is played by
several copies, and their mean is the baseline.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import matplotlib
import numpy as np
import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from evals.stats.intervals import Estimate, mean_estimate, proportion_estimate
from evals.suite import plan_for, play_episode
from evals.suites.kumo.suite import KumoSuite
from evals.types import Chat, Reply, Turn

ENVIRONMENT = "raycade.gymnasium:raycade/Kumo-v0"
ANSWER = "<ANSWER> "
"""A reply begins so; the name that follows is one token (``vocabulary``)."""
LOOK_EVERY = 30
"""Updates between two looks at the games of the evaluation."""


@dataclass(frozen=True)
class Reinforcement:
    """How to train.

    Attributes:
        updates: Steps of the optimizer.
        games: Played for each of them.
        copies: So many of these are the same game, so that luck with a game does not count.
        rate: Learning rate.
        seed: Of games, choices and updates.
    """

    updates: int = 150
    games: int = 96
    copies: int = 4
    rate: float = 3e-4
    seed: int = 0


class Policy:
    """The model as probabilities of options."""

    def __init__(self, folder: Path) -> None:
        self.model = LlamaForCausalLM.from_pretrained(folder)
        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)

    def log_probabilities(self, chats: Sequence[Chat], options: Sequence[Sequence[str]]) -> list[torch.Tensor]:
        """For each chat the log-probabilities of its options, which share a probability of 1."""
        prompts = [self._tokens(chat) for chat in chats]
        longest = max(map(len, prompts))
        ids = torch.full((len(prompts), longest), self.tokenizer.pad_token_id)
        for place, tokens in enumerate(prompts):  # padded behind, where no earlier token looks
            ids[place, : len(tokens)] = torch.tensor(tokens)
        hidden = self.model.model(input_ids=ids, use_cache=False).last_hidden_state
        last = hidden[torch.arange(len(prompts)), torch.tensor([len(tokens) - 1 for tokens in prompts])]
        logits = self.model.lm_head(last)
        names = [[self.tokenizer.encode(name)[0] for name in offered] for offered in options]
        return [row[tokens].log_softmax(-1) for row, tokens in zip(logits, names, strict=True)]

    def _tokens(self, chat: Chat) -> list[int]:
        messages = [{"role": said.role, "content": "".join(map(str, said.parts))} for said in chat]
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return list(self.tokenizer.encode(text + ANSWER, add_special_tokens=False))

    async def reply(self, turn: Turn) -> Reply:
        """An option drawn as in training, as a player of ``evals`` replies; the same one whenever the turn is asked."""
        with torch.no_grad():
            (likely,) = self.log_probabilities([turn.chat], [turn.options])
        chances = likely.exp().double().numpy()
        drawn = np.random.default_rng(turn.seed).choice(len(chances), p=chances / chances.sum())
        return Reply(f"{ANSWER}{turn.options[int(drawn)]} </ANSWER>")


@dataclass
class Choice:
    """A reply with what came of it."""

    chat: Chat
    options: tuple[str, ...]
    action: int
    total: float = 0.0
    """Rewards of the whole game."""


def play(
    policy: Policy, environments: Sequence[gymnasium.Env[Any, Any]], rng: np.random.Generator
) -> list[list[Choice]]:
    """One game in each environment, all at a time, with options drawn by the policy."""
    infos = [environment.reset()[1] for environment in environments]
    games: list[list[Choice]] = [[] for _ in environments]
    rewards: list[list[float]] = [[] for _ in environments]
    playing = list(range(len(environments)))
    while playing:
        with torch.no_grad():
            likely = policy.log_probabilities(
                [infos[place]["chat"] for place in playing], [infos[place]["options"] for place in playing]
            )
        going_on = []
        for place, log_probabilities in zip(playing, likely, strict=True):
            chances = log_probabilities.exp().double().numpy()
            action = int(rng.choice(len(chances), p=chances / chances.sum()))
            games[place].append(Choice(infos[place]["chat"], infos[place]["options"], action))
            _, reward, over, _, infos[place] = environments[place].step(action)
            rewards[place].append(float(reward))
            if not over:
                going_on.append(place)
        playing = going_on
    for game, received in zip(games, rewards, strict=True):
        for choice in game:
            choice.total = sum(received)
    return games


def update(policy: Policy, optimizer: torch.optim.Optimizer, games: Sequence[Sequence[Choice]], copies: int) -> float:
    """One step of REINFORCE on games of which ``copies`` in a row are the same; returns their mean total reward."""
    totals = torch.tensor([game[0].total for game in games]).view(-1, copies)
    better = ((totals - totals.mean(1, keepdim=True)) / (totals.std() + 1e-3)).flatten().tolist()
    choices = [choice for game in games for choice in game]
    advantages = torch.tensor([value for value, game in zip(better, games, strict=True) for _ in game])
    likely = policy.log_probabilities([choice.chat for choice in choices], [choice.options for choice in choices])
    chosen = torch.stack([row[choice.action] for row, choice in zip(likely, choices, strict=True)])
    loss = -(advantages * chosen).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)
    optimizer.step()
    return float(totals.mean())


def evaluate(policy: Policy, suite: KumoSuite) -> list[bool]:
    """Which games of the evaluation are won."""
    won = []
    for episode in plan_for(suite, {"policy": ""}):
        record = asyncio.run(play_episode(suite, episode, policy))
        won.append(record.outcome is not None and record.outcome.success)
    return won


def draw(curve: Sequence[tuple[int, Estimate]], path: Path) -> None:
    """Success on the evaluation's games over the updates."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5))
    updates = [number for number, _ in curve]
    values = [estimate.mean for _, estimate in curve]
    axes.fill_between(updates, [each.low for _, each in curve], [each.high for _, each in curve], alpha=0.25)
    axes.plot(updates, values, marker="o")
    axes.set(xlabel="updates", ylabel="success on held-out games", ylim=(0, 1))
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main(arguments: list[str] | None = None) -> int:
    """Train, look at the evaluation now and then, write model, curve and figure."""
    defaults = Reinforcement()
    parser = argparse.ArgumentParser(prog="python -m examples.small_model.reinforce", description=__doc__)
    parser.add_argument("model", type=Path, metavar="MODEL", help="folder of python -m examples.small_model")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for the trained model, its curve and a figure")
    parser.add_argument("--domain", default="probability_distributions@in", help="default %(default)s")
    parser.add_argument("--level", default="3x4", help="truths x tests of a game (default %(default)s)")
    parser.add_argument("--updates", type=int, default=defaults.updates, help="default %(default)s")
    parser.add_argument(
        "--held-out", type=int, default=600, metavar="GAMES", help="of the evaluation (default %(default)s)"
    )
    parser.add_argument("--games", type=int, default=defaults.games, help="played for an update (default %(default)s)")
    parser.add_argument("--seed", type=int, default=defaults.seed, help="default %(default)s")
    options = parser.parse_args(arguments)
    training = Reinforcement(
        updates=options.updates, games=options.games, copies=min(options.games, defaults.copies), seed=options.seed
    )
    kinds = {"domains": [options.domain], "difficulties": [options.level], "book": "symbolic", "repeats": 1, "seed": 1}
    suite = KumoSuite(**kinds, tasks_per_domain=options.held_out)
    policy = Policy(options.model)
    torch.manual_seed(training.seed)
    rng = np.random.default_rng(training.seed)
    environments = []
    for place in range(training.games):
        made = gymnasium.make(
            ENVIRONMENT,
            reward="regret",
            tasks_per_domain=10,
            evaluation={"tasks_per_domain": options.held_out},
            most_bytes=1 << 20,
            **kinds,
        )
        made.reset(seed=training.seed * training.games + place // training.copies)
        environments.append(made)
    optimizer = torch.optim.AdamW(policy.model.parameters(), training.rate, weight_decay=0.0)
    start, before = time.monotonic(), evaluate(policy, suite)
    after = before
    curve = [(0, proportion_estimate(before))]
    print(f"before: success {curve[0][1].mean:.3f} on {len(before)} held-out games", flush=True)
    for number in range(1, training.updates + 1):
        reward = update(policy, optimizer, play(policy, environments, rng), training.copies)
        if number % LOOK_EVERY and number < training.updates:
            continue
        after = evaluate(policy, suite)
        curve.append((number, proportion_estimate(after)))
        minutes = (time.monotonic() - start) / 60
        said = f"reward {reward:.3f}, held out {curve[-1][1].mean:.3f}, {minutes:.1f} minutes"
        print(f"update {number}: {said}", flush=True)
    gain = mean_estimate([float(now) - float(then) for now, then in zip(after, before, strict=True)])
    print(f"gain on the same games: {gain.mean:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]")
    options.out.mkdir(parents=True, exist_ok=True)
    policy.model.save_pretrained(options.out)
    policy.tokenizer.save_pretrained(options.out)
    rows = [{"update": number, "success": each.mean, "low": each.low, "high": each.high} for number, each in curve]
    (options.out / "curve.json").write_text(json.dumps(rows, indent=1))
    draw(curve, options.out / "curve.png")
    for environment in environments:
        environment.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
