"""``raycade preregister``: hypothesis, measure, players, alpha, stopping rule and plan, written down before a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from cluster.completion import complete_overrides
from cluster.config.settings import load_settings
from cluster.errors import UserError
from cluster.stopping.registration import register, sha256
from cluster.storage.durable import write_durably


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``raycade preregister``."""
    parser.description = (
        "Writes what a run with these overrides will be to FILE and prints its SHA-256, to be published. `raycade run` with "
        "the same overrides and preregistration=FILE keeps it with the run, and `raycade compare` says what was kept."
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="what to write; it must not exist")
    parser.add_argument("--hypothesis", required=True, metavar="TEXT", help="what is expected, in a sentence")
    parser.add_argument("--measure", default="success", help="what will be compared (default success)")
    parser.add_argument("--alpha", type=float, default=0.05, help="chance of a wrong claim (default .05)")
    complete_overrides(parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE"))


def main(options: argparse.Namespace) -> None:
    """Write the file.

    Raises:
        UserError: the settings are wrong, or the file exists.
    """
    if options.out.exists():
        raise UserError(f"{options.out}: exists; what has been registered is not written over")
    if not 0 < options.alpha < 1:
        raise UserError(f"--alpha {options.alpha:g}: must be above 0 and below 1")
    settings = load_settings(options.overrides)
    registration = register(settings, options.hypothesis, options.measure, options.alpha)
    try:
        content = registration.to_json().encode()
    except UnicodeEncodeError as error:
        raise UserError("--hypothesis or --measure: is no UTF-8 text") from error
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_durably(options.out, content)
    rule = "the whole plan" if settings.stop is None else f"stop={settings.stop.kind}"
    print(f"{options.out}: {len(settings.plan):,} episodes, {rule}\nSHA-256 {sha256(content)}")
    print(f"run it: raycade run {' '.join(options.overrides)} preregistration={options.out}")
