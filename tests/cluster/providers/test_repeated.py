"""``raycade run --from RUN`` for every engine: the same games are played again, by providers against the stub."""

import asyncio

import pytest
import yaml

from cluster.commands.repeat import repeated_settings, what_differs
from cluster.config.registry import names_of
from cluster.config.settings import load_settings
from cluster.engines.replica import Replica
from cluster.storage.run_directory import RunDirectory
from cluster.storage.stored_run import Run
from evals.ledger.records import records_to_table
from evals.suite import built_in_players, ledger_columns, play_episode
from tests.cluster.conftest import EASY
from tests.scripted_writer import play_all

KUMO = [*EASY, "suite.tasks_per_domain=2", "suite.repeats=1", "suite.max_steps=3"]
PROVIDERS = {
    "responses": ["model=openai_client", "model.engine.model=gpt-5.6", "model.engine.effort=low"],
    "chat": ["model=openai_client", "model.engine.model=gpt-5.6", "model.engine.api=chat"],
    "azure": ["model=azure", "model.engine.model=my-deployment"],
    "azure dated": [
        "model=azure",
        "model.engine.model=d",
        "model.engine.api=chat",
        "model.engine.api_version=2024-10-21",
    ],
    "openrouter": ["model=openrouter", "model.engine.model=some/model"],
    "anthropic": ["model=anthropic", "model.engine.model=claude-opus-5", "model.engine.spend_cap=3"],
    "gemini": ["model=gemini", "model.engine.model=gemini-3.6-flash"],
    "bedrock": [
        "model=bedrock",
        "model.engine.model=us.anthropic.claude-opus-5-v1:0",
        "model.engine.thinking_tokens=2000",
    ],
    "compatible": ["model=openai", "model.engine.model=m"],
}
"""Engines that ask a server."""
WITHOUT_SERVER = {
    "simulated": ["model=simulated", "model.engine.step_seconds=0"],
    "oracle": ["model=oracle"],
    "random": ["model=random"],
    "greedy": ["model=oracle", "model.name=greedy"],
}


def played(settings, replica=None):
    """Play a run in this process, by the engine or the built-in player that its settings name; returns its rows.

    Args:
        settings: Of the run.
        replica: What answers in place of an engine of its own.
    """
    directory = RunDirectory(settings.run_dir)
    directory.claim()
    directory.begin(settings.plan, {"config.yaml": settings.config})
    directory.begin_session(yaml.safe_load(settings.config))
    if settings.model.engine is None:
        player = built_in_players(settings.suite)[settings.model.name]
        records = [asyncio.run(play_episode(settings.suite, each, player)) for each in settings.plan]
        directory.commit(records_to_table(records, ledger_columns(settings.suite)))
    else:
        asyncio.run(play_with_engine(settings, directory, replica))
    directory.release()
    kept = ("episode_id", "status", "success", "steps", "prompt_tokens", "completion_tokens", "cost")
    rows = Run(settings.run_dir).episodes([*kept, "turns"]).to_pylist()
    found = [[*(row[name] for name in kept), [turn["reply"] for turn in row["turns"]]] for row in rows]
    return sorted(found, key=str)


async def play_with_engine(settings, directory, replica):
    own = None if replica else Replica("one", settings.model.make_engine)
    if own:
        await own.start()
    await play_all(settings, settings.plan, directory, replica or own, 8)
    if own:
        await own.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PROVIDERS, *WITHOUT_SERVER])
def test_every_engine_plays_the_same_games_again(tmp_path, name, stub):
    address = [f"model.engine.base_url={stub.url}{'/v1' * (name == 'compatible')}"] if name in PROVIDERS else []
    overrides = [*KUMO, *{**PROVIDERS, **WITHOUT_SERVER}[name], *address]
    settings = load_settings([*overrides, f"run_dir={tmp_path / 'run'}"])
    first = played(settings)
    asked = len(stub.bodies)
    again = repeated_settings(Run(settings.run_dir), address)
    assert (again.model, again.plan, again.run_dir) == (settings.model, settings.plan, tmp_path / "run-again")
    assert what_differs(Run(settings.run_dir), again) == [f"repeats {settings.run_dir}; nothing differs"]
    assert played(again) == first and len(first) == 2 and all(row[1] == "done" for row in first)
    assert len(stub.bodies) == 2 * asked and (asked > 0) is (name in PROVIDERS)


def test_every_engine_is_among_those():
    files = {
        each.partition("=")[2] for overrides in PROVIDERS.values() for each in overrides if each.startswith("model=")
    }
    assert files | {"simulated", "vllm", "agent"} == set(names_of("model.engine")), (
        "vllm: test_vllm_kumo_pipeline.py; an agent is served"
    )
