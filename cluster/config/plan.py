"""The suite of a configuration, who plays it, and the episodes that follow."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from cluster.config.model import ModelSettings, make_model
from cluster.config.registry import make
from cluster.errors import UserError
from cluster.models.hardware import picture_rule
from envs.settings import shown
from envs.suggest import did_you_mean
from evals.human import is_human
from evals.suite import Suite, built_in_players, counting_pictures, people_fingerprint, plan_for
from evals.types import Episode, stable_hash


def whole_plan(config: Mapping[str, Any]) -> tuple[Suite, ModelSettings, tuple[Episode, ...]]:
    """Suite, model and all episodes of a resolved configuration, regardless of its shard.

    Raises:
        UserError: something in it is unknown or invalid.
    """
    suite, model = make_suite(config["suite"]), make_model(config.get("model"), config)
    players = players_of(config, suite, model)
    try:
        with counting_pictures(picture_rule(model.engine)):
            return suite, model, plan_for(suite, players)
    except (ValueError, OSError) as error:
        raise _about_suite(error) from error


def players_of(config: Mapping[str, Any], suite: Suite, model: ModelSettings) -> dict[str, str]:
    """All players by name, each with a hash of what decides its answers.

    Raises:
        UserError: there is no such player, or the model cannot play the suite.
    """
    # the configuration of an imported run has what its files said
    decoding, baselines = config.get("decoding") or "free", config.get("baselines") or []
    try:
        built_in = built_in_players(suite)
    except (ValueError, OSError) as error:
        raise _about_suite(error) from error
    names = ", ".join(sorted(built_in))
    for name in baselines:
        if name not in built_in:
            near = did_you_mean(name, built_in) or "."
            raise UserError(f"baselines={shown(baselines)}: there is no player {name}{near} There are {names}")
    # A model has an engine, unless its name is that of a built-in player or of a person, who need none.
    needs_none = model.name in built_in or is_human(model.name)
    if model.engine is not None:
        if needs_none:
            raise UserError(
                f"model.name={model.name}: this name belongs to a built-in player; give the model another one"
            )
        _check_capabilities(suite, model, decoding)
        own = stable_hash(model.fingerprint, decoding)
    elif is_human(model.name):
        # What people see decides their answers.
        own = people_fingerprint(suite)
    elif needs_none:
        own = ""
    else:
        raise UserError(f"model={model.name}: has no engine; players of this suite that need none: {names}")
    return {model.name: own, **dict.fromkeys(baselines, "")}


def _check_capabilities(suite: Suite, model: ModelSettings, decoding: str) -> None:
    """Check that the engine can do what the suite and the decoding need."""
    can = model.capabilities
    if decoding == "choice" and not can.options:
        raise UserError(
            f"decoding=choice: model={model.name} cannot constrain its replies to options; use decoding=free"
        )
    for part in suite.parts:
        try:
            needs = part.needs
        except (ValueError, OSError) as error:
            raise _about_suite(error) from error
        if needs.pictures > can.pictures:
            limit = f"takes {can.pictures} in a prompt" if can.pictures else "reads text only"
            raise UserError(
                f"suite={part.name}: shows up to {needs.pictures} pictures at once; model={model.name} {limit}"
            )
        if needs.label_scores and not can.label_scores:
            raise UserError(
                f"suite={part.name}: asks for probabilities of labels, which model={model.name} cannot give "
                f"({can.without_labels}); written answers need none"
            )
        if can.context is not None and needs.context > can.context:
            raise UserError(
                f"suite={part.name}: needs a context of {needs.context:,} tokens; model={model.name} has {can.context:,}"
            )


def label_suites(suite: Suite) -> frozenset[str]:
    """Names of the parts of a suite whose every reply is one token, enough to score labels.

    Not those whose files are gone, as those of a finished run may be.
    """
    found = set[str]()
    for part in suite.parts:
        with contextlib.suppress(ValueError):
            if part.needs.label_scores:
                found.add(part.name)
    return frozenset(found)


def make_suite(config: Any) -> Suite:
    """The suite that a configuration's ``suite`` section describes.

    Raises:
        UserError: it does not exist or rejects its settings.
    """
    try:
        suite: Suite = make("suite", config if isinstance(config, dict) else {})
    except UserError:
        raise
    except Exception as error:
        raise _about_suite(error) from error
    return suite


def _about_suite(error: Exception) -> UserError:
    message = str(error)
    return UserError(message if message.startswith("suite") else f"suite: {message}")
