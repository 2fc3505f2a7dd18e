"""Which commit of a model's files a run loads, and what is said when its branch has moved since."""

import dataclasses
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from cluster.commands import commits
from cluster.commands.commits import with_commit
from cluster.config.settings import load_settings
from cluster.errors import UserError
from tests.cluster.conftest import EASY, ROOT
from tests.stub_hub import stub_hub

FIRST, SECOND = "a" * 40, "b" * 40
NOTED = [{"surroundings": {"weights": FIRST}}, {"surroundings": {"weights": "of an older version"}}, {"id": "old"}]


@pytest.fixture(scope="module")
def settings():
    return load_settings([*EASY, "model=qwen3_8b", "model.engine.revision=v1"])


@pytest.fixture
def hub_at(monkeypatch):
    def at(commit):
        monkeypatch.setattr(commits, "commit_of", lambda model, revision, **_: commit)

    return at


def test_the_commit_goes_to_the_engine_and_changes_no_id(settings, hub_at):
    hub_at(FIRST)
    found = with_commit(settings, [])
    assert found.model.make_engine().arguments["revision"] == FIRST
    assert settings.model.make_engine().arguments["revision"] == "v1"
    assert found.model.fingerprint == settings.model.fingerprint and found.config == settings.config


def test_a_resumed_run_goes_on_with_the_commit_it_began_with(settings, hub_at, capsys):
    hub_at(SECOND)
    assert with_commit(settings, NOTED).model.commit == FIRST
    said = " ".join(capsys.readouterr().err.split())
    assert f"v1 is at {SECOND} now, and was at {FIRST} when this run began; the run goes on with that one" in said
    with pytest.raises(UserError, match=f"strict=true: .* was at {FIRST}"):
        with_commit(dataclasses.replace(settings, strict=True), NOTED)
    hub_at("")  # no network now
    assert with_commit(settings, NOTED).model.commit == FIRST and not capsys.readouterr().err


def test_a_folder_and_an_engine_without_revisions_have_no_commit(tmp_path, hub_at, settings):
    hub_at(FIRST)
    model = dataclasses.replace(settings.model, engine={**settings.model.engine, "model": str(tmp_path)})
    assert with_commit(dataclasses.replace(settings, model=model), []).model.commit == ""
    simulated = load_settings([*EASY, "model=simulated"])
    assert with_commit(simulated, []) is simulated


@pytest.mark.parametrize(("asked", "pauses"), [(None, [2, 4, 8, 16, 30]), ("3", [3, 6, 12, 24, 30]), ("9999", [120])])
def test_a_busy_hub_is_asked_again_for_some_minutes_and_as_late_as_it_asks(monkeypatch, capsys, asked, pauses):
    now, asleep = 0.0, []

    def sleep(seconds):
        nonlocal now
        now += seconds
        asleep.append(seconds)

    def refuse(self, *_, **__):
        error = OSError("429 Too Many Requests")
        error.response = SimpleNamespace(status_code=status(), headers={"Retry-After": asked} if asked else {})
        raise LookupError("couldn't connect") from error

    monkeypatch.setattr(commits, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", refuse)
    status = lambda: 429  # noqa: E731
    assert commits.commit_of("org/absent", "main", patience=300) == ""
    assert asleep[: len(pauses)] == pauses and 150 < sum(asleep) <= 300
    assert "the hub is busy (429 Too Many Requests): asking for org/absent again in" in capsys.readouterr().err
    status = lambda: 429 if now < 1000 else 404  # noqa: E731
    now = 900.0
    assert commits.commit_of("org/absent", "main", patience=600) == "" and now < 1200, "no patience with another answer"
    asleep.clear()
    assert commits.commit_of("org/absent", "main") == "" and not asleep


@pytest.mark.parametrize(
    ("sha", "cached", "found"),
    [
        ("a" * 40, "b" * 40, "a" * 40),
        *(("a" * 39, "b" * 40, ""), (None, "b" * 40, "")),
        *((OSError("404"), "b" * 40, "b" * 40), (OSError("404"), "main", ""), (OSError("404"), None, "")),
    ],
)
def test_the_hub_tells_a_branch_s_commit_and_where_it_does_not_answer_the_cache(sha, cached, found, monkeypatch):
    def asked(self, id, revision, timeout):
        assert (id, revision) == ("org/m", "main") and timeout > 0
        if isinstance(sha, Exception):
            raise sha
        return SimpleNamespace(sha=sha)

    place = f"hub/{cached}/config.json" if cached else object()
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", asked)
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda id, file, revision: place)
    assert commits.commit_of("org/m", "main") == found
    assert commits.commit_of("org/m", "c" * 40) == "c" * 40, "it is one, so nobody is asked"


ASK = """
import json, sys
from cluster.commands.commits import commit_of
from cluster.models.hub import selectable
name = ["model=hf", "model.engine.model=org/small"]
found = {"main": commit_of("org/small", "main"), "v1": commit_of("org/small", "v1"), "none": commit_of("org/small", "v9")}
found["context"] = [
    selectable([*name, *more])["hf"]["engine"]["max_model_len"] for more in ([], ["model.engine.revision=v1"])
]
print(json.dumps(found))
"""


def ask(tmp_path, **environment):
    """In a process of its own, since the hub's library reads its environment once; online, which vLLM's tests switch off."""
    own = {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "0", "PYTHONPATH": str(ROOT)}
    environment = {**os.environ, **own, **environment}
    done = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_branch_is_resolved_by_the_hub_or_its_cache_and_the_row_is_that_of_the_revision(tmp_path):
    with stub_hub("org/small") as hub:
        expected = {"none": ""}
        for number, (branch, context) in enumerate({"main": 2048, "v1": 1024}.items()):
            folder = tmp_path / branch
            folder.mkdir()
            config = SimpleNamespace(
                architectures=["LlamaForCausalLM"], num_hidden_layers=2, num_attention_heads=4, hidden_size=64,
                intermediate_size=128, vocab_size=1000, max_position_embeddings=context,
            )  # fmt: skip
            (folder / "config.json").write_text(json.dumps(vars(config)))
            expected[branch] = hub.publish(branch, folder, number)
        there = ask(tmp_path, HF_ENDPOINT=hub.address)
        assert there == {**expected, "context": [2048, 1024]}
        address = hub.address
    assert ask(tmp_path, HF_ENDPOINT=address, HF_HUB_OFFLINE="1") == there, "the cache knows what was fetched"
