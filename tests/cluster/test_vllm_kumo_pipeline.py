"""All stages of the KUMO pipeline with the tiny model under constrained decoding; games that are played again."""

import asyncio
import threading

import pytest
import yaml

from cluster.commands.repeat import repeated_settings, what_differs
from cluster.config.settings import load_settings
from cluster.engines.base import Sampling
from cluster.engines.vllm import VLLMEngine
from cluster.storage.stored_run import Run
from cluster.suite_commands.kumo.stages import run_command
from tests.cluster.conftest import EASY
from tests.cluster.providers.test_repeated import played
from tests.scripted_writer import play_with

pytestmark = pytest.mark.vllm

MAX_TOKENS = 1_500
SETTINGS = ["model=tiny", "decoding=choice", "suite.repairs=0", "suite.tasks_per_domain=2"]


class Served:
    """An engine on a loop of its own, so that the stages, each with its loop, share it."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.asked = []
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.engine = VLLMEngine(
            sampling=Sampling(max_tokens=MAX_TOKENS),
            model="tiny",
            dtype="float32",
            max_model_len=16_384,
            max_num_seqs=16,
            kv_cache_gib=0.5,
            block_size=32,
            enforce_eager=True,
            vllm={"structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True}},
        )
        self.wait(self.engine.start())

    def wait(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def complete(self, request):
        self.asked.append(request)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.engine.complete(request), self.loop))


@pytest.fixture(scope="module")
def served():
    served = Served()
    yield served
    served.wait(served.engine.close())
    served.loop.call_soon_threadsafe(served.loop.stop)


def rows_of(folder, stage):
    return Run(folder / "runs" / stage).episodes(None).to_pylist()


def test_domains_are_proposed_in_form_and_refused_by_the_checks(served, tmp_path):
    folder = tmp_path / "made"
    small = ["suite.proposals=2", "suite.per_reply=2", "suite.truths=6", "suite.actions=6"]
    assert run_command("make", folder, [*SETTINGS, *small], False, play=play_with(served, 16)) == 0
    assert all(request.schema for request in served.asked if len(request.chat) == 1)
    assert all(row["status"] == "done" and row["success"] for row in rows_of(folder, "propose"))
    proposed = yaml.safe_load((folder / "proposals.yaml").read_text())
    assert 1 <= len(proposed) <= 2
    rows = rows_of(folder, "configure")
    assert len(rows) == len(proposed) and not any(row["success"] for row in rows), "no truths of chance obey all rules"
    assert all(row["kumo_pipeline.complaints"] and row["status"] == "done" for row in rows)
    assert not (folder / "domains").exists()


def test_books_of_chance_are_read_back_and_refused(served, tmp_path):
    folder = tmp_path / "made"
    assert run_command("make", folder, [*SETTINGS, "suite.domains=[medical]"], False, play=play_with(served, 16)) == 0
    for stage in ("write", "check-1", "revise-1", "check-2"):
        rows = rows_of(folder, stage)
        assert len(rows) == 2 and all(row["status"] == "done" for row in rows)
    for stage in ("check-1", "check-2"):
        rows = rows_of(folder, stage)
        assert not any(row["success"] for row in rows)
        assert {row["kumo_pipeline.parser"] for row in rows} <= {"unreadable", "differs"}
        assert {row["kumo_pipeline.model"] for row in rows} <= {"unreadable", "differs"}
    assert not (folder / "books").exists()


def test_games_are_played_again_with_the_same_replies(served, tmp_path):
    small = [*EASY, "suite.tasks_per_domain=2", "suite.repeats=1", "suite.max_steps=3", "model=tiny"]
    settings = load_settings([*small, f"run_dir={tmp_path / 'run'}"])
    first = played(settings, served)
    source = Run(settings.run_dir)
    again = repeated_settings(source, [])
    assert what_differs(source, again) == [f"repeats {source.path}; nothing differs"]
    assert played(again, served) == first and [row[1] for row in first] == ["done", "done"]
