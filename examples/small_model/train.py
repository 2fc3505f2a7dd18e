"""Training from random weights, in pieces if need be: a folder that holds a half-trained model is trained on."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from examples.small_model.data import PROMPT, REPLY, Example, batches
from examples.small_model.vocabulary import END, PAD

CONTEXT = 16384
"""Tokens that the model takes: games of other sizes, and names that it spells, are longer than those it learns from."""
STATE = "training.pt"
_WARM_UP = 50
_SHOW_EVERY = 100


@dataclass(frozen=True)
class Training:
    """How to train.

    Attributes:
        steps: Batches in all, over which the learning rate falls to nothing.
        batch: Games of a batch.
        rate: Highest learning rate of the layers' matrices; that of the rest is .3 of it.
        prompt_weight: What the loss of prompts counts beside that of replies. The guidebook says in every game which outcome
            rules out what; foreseeing that is what a model without any knowledge has to learn first.
        seed: Of the weights and of the order of the games.
    """

    steps: int = 3000
    batch: int = 32
    rate: float = 2e-2
    prompt_weight: float = 1.0
    seed: int = 0


def new_model(tokenizer: PreTrainedTokenizerFast, seed: int, width: int = 64, layers: int = 3) -> LlamaForCausalLM:
    """A Llama of some 200,000 parameters with random weights; heads are 32 wide, the least that vLLM takes."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 32,
        num_key_value_heads=width // 32,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        initializer_range=width**-0.5,
        bos_token_id=None,
        eos_token_id=tokenizer.convert_tokens_to_ids(END),
        pad_token_id=tokenizer.convert_tokens_to_ids(PAD),
    )
    return LlamaForCausalLM(config)


class Trainer:
    """Weights, optimizer and how far they are, which can be kept in a folder and taken up again."""

    def __init__(self, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, training: Training) -> None:
        self.model, self.tokenizer, self.training, self.step, self.seconds = model, tokenizer, training, 0, 0.0
        inner = [weight for weight in model.model.layers.parameters() if weight.ndim == 2]
        others = [weight for weight in model.parameters() if all(weight is not other for other in inner)]
        # Muon learns from about half as many games as AdamW, which is left with embeddings and norms.
        self.optimizers = (
            torch.optim.Muon(inner, training.rate, momentum=0.9, weight_decay=0.01),
            torch.optim.AdamW(others, 0.3 * training.rate, betas=(0.9, 0.98), weight_decay=0.0),
        )
        self.rates = (training.rate, 0.3 * training.rate)

    def train(self, examples: Sequence[Example], seconds: float = math.inf) -> None:
        """Train until all steps are done or the time is up; the loss is printed now and then."""
        rng = np.random.default_rng([self.training.seed, self.step])
        pad = self.tokenizer.convert_tokens_to_ids(PAD)
        start, before, losses = time.monotonic(), self.seconds, []
        for batch in batches(examples, self.training.batch, rng, pad):
            if self.step >= self.training.steps or time.monotonic() - start > seconds:
                break
            losses.append(self.one_step(batch))
            self.seconds = before + time.monotonic() - start
            if self.step % _SHOW_EVERY == 0:
                print(f"step {self.step:,}: loss {np.mean(losses):.4f}, {self.seconds / 60:.1f} minutes", flush=True)
                losses = []

    def one_step(self, batch: dict[str, torch.Tensor]) -> float:
        """One batch; its loss on the replies."""
        self.model.train()
        loss, replies = weighted_loss(self.model, batch, self.training.prompt_weight)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer, rate in zip(self.optimizers, self.rates, strict=True):
            optimizer.param_groups[0]["lr"] = rate * self._share(self.step)
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        return float(replies)

    def _share(self, step: int) -> float:
        """Of the highest learning rate: a linear start, then half a cosine."""
        return min(1, (step + 1) / _WARM_UP) * 0.5 * (1 + math.cos(math.pi * min(1, step / self.training.steps)))

    def save(self, folder: Path) -> None:
        """Write the model as vLLM and transformers load it, and what it takes to go on."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        optimizers = [optimizer.state_dict() for optimizer in self.optimizers]
        state = {"step": self.step, "seconds": self.seconds, "optimizers": optimizers}
        torch.save(state, folder / STATE)

    @classmethod
    def load(cls, folder: Path, training: Training) -> Trainer:
        """Take up what ``save`` wrote."""
        model = LlamaForCausalLM.from_pretrained(folder)
        trainer = cls(model, PreTrainedTokenizerFast.from_pretrained(folder), training)
        state = torch.load(folder / STATE, weights_only=True)
        for optimizer, kept in zip(trainer.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(kept)
        trainer.step, trainer.seconds = state["step"], state["seconds"]
        return trainer


def weighted_loss(model: LlamaForCausalLM, batch: dict[str, torch.Tensor], prompt_weight: float) -> tuple[Any, Any]:
    """Mean cross-entropy of the replies plus that of the prompts times a weight, and that of the replies alone."""
    logits = model(input_ids=batch["input_ids"], use_cache=False).logits[:, :-1]
    labels, kinds = batch["input_ids"][:, 1:], batch["kinds"][:, 1:]
    each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    replies, prompts = each[kinds == REPLY].mean(), each[kinds == PROMPT].mean()
    return replies + prompt_weight * prompts, replies.detach()


@torch.no_grad()
def reply_accuracy(model: LlamaForCausalLM, examples: Sequence[Example], tokenizer: PreTrainedTokenizerFast) -> float:
    """Share of replies that the model would write just as they are, given the chat before them."""
    model.eval()
    end = tokenizer.convert_tokens_to_ids(END)
    right = replies = 0
    for ids, kinds in examples:
        logits = model(input_ids=torch.from_numpy(ids[None].astype(np.int64))).logits[0, :-1]
        wrong = False
        for guess, token, kind in zip(logits.argmax(-1).tolist(), ids[1:].tolist(), kinds[1:].tolist(), strict=True):
            wrong |= kind == REPLY and guess != token
            if kind == REPLY and token == end:
                replies, right, wrong = replies + 1, right + (not wrong), False
    return right / replies
