"""``raycade preregister``: hypothesis, measure, players, alpha, stopping rule and plan, written down before a run."""

from __future__ import annotations

import argparse

from cluster.config.settings import load_settings
from cluster.console import raycade, say
from cluster.errors import UserError, cannot_write
from cluster.stopping.registration import check_measure, register, sha256
from cluster.storage.durable import create_durably


def main(options: argparse.Namespace) -> None:
    """Write the file.

    Raises:
        UserError: the settings or the measure are wrong, or the file exists.
    """
    exists = UserError(f"{options.out}: exists; what has been registered is not written over")
    if options.out.exists():
        raise exists
    if not 0 < options.alpha < 1:
        raise UserError(f"--alpha {options.alpha:g}: must be above 0 and below 1")
    settings = load_settings(options.overrides)
    check_measure(options.measure, settings)
    registration = register(settings, options.hypothesis, options.measure, options.alpha)
    try:
        content = registration.to_json().encode()
    except UnicodeEncodeError as error:
        raise UserError("--hypothesis or --measure: is no UTF-8 text") from error
    try:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        try:
            create_durably(options.out, content)
        except FileExistsError as error:  # another command was quicker
            raise exists from error
    except OSError as error:
        raise cannot_write(options.out, error) from error
    rule = "the whole plan" if settings.stop is None else f"stop={settings.stop.kind}"
    say(f"{options.out}: {len(settings.plan):,} episodes, {rule}\nSHA-256 {sha256(content)}")
    say(f"run it: {raycade('run', *options.overrides, f'preregistration={options.out}')}")
