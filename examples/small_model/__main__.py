"""``python -m examples.small_model TRAJECTORIES FOLDER``: train a small model and save it where vLLM can load it."""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from pathlib import Path

from evals.suites.kumo.lab.trajectories import file as trajectory_file
from examples.small_model.data import encode
from examples.small_model.train import STATE, Trainer, Training, new_model, reply_accuracy
from examples.small_model.vocabulary import build_tokenizer

VALIDATION = 50
"""Trajectories at the beginning of the file that are not trained on (as many as the paper's)."""
_NAMES_FROM = 3000
"""Trajectories that the tokenizer is made of."""


def main(arguments: list[str] | None = None) -> int:
    """Train, or train on; 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python -m examples.small_model", description=__doc__)
    parser.add_argument("trajectories", type=Path, metavar="TRAJECTORIES", help="file of raycade kumo lab trajectories")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="for the model; a half-trained one is trained on")
    parser.add_argument("--steps", type=int, default=Training.steps, help="batches in all (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after these; run it again to go on")
    options = parser.parse_args(arguments)
    training = Training(steps=options.steps)
    try:
        rows = trajectory_file.read(options.trajectories)
        first = list(itertools.islice(rows, _NAMES_FROM))
        if len(first) <= VALIDATION:
            raise ValueError(f"{options.trajectories} holds {len(first)} trajectories; training takes thousands")
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if (options.folder / STATE).exists():
        trainer = Trainer.load(options.folder, training)
    else:
        tokenizer = build_tokenizer(first)
        trainer = Trainer(new_model(tokenizer, training.seed), tokenizer, training)
    examples = [encode(row, trainer.tokenizer) for row in itertools.chain(first, rows)]
    tokens = sum(len(ids) for ids, _ in examples) / len(examples)
    print(
        f"{len(examples):,} trajectories of {tokens:.0f} tokens, {len(trainer.tokenizer)} different ones; "
        f"{trainer.model.num_parameters():,} parameters"
    )
    trainer.train(examples[VALIDATION:], 60 * options.minutes)
    trainer.save(options.folder)
    right = reply_accuracy(trainer.model, examples[:VALIDATION], trainer.tokenizer)
    print(f"{options.folder}: {trainer.step:,} of {training.steps:,} steps, {trainer.seconds / 60:.1f} minutes")
    print(f"replies of perfect play that it writes itself, in {VALIDATION} trajectories not trained on: {right:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
