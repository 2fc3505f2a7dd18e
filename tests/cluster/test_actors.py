"""What raycade asks of Ray: each actor's options, its errors in the terms of engines, and how a cluster is joined."""

import asyncio
import contextlib
import sys
from types import SimpleNamespace

import pytest
from ray.exceptions import RayActorError, RayTaskError

from cluster.config.model import ModelSettings, ReplicaNeeds
from cluster.config.settings import ClusterSettings
from cluster.engines.base import EngineDiedError, EngineError, Request, Sampling
from cluster.errors import RunFailedError, UserError
from cluster.ray_backend import actors
from cluster.ray_backend.actors import Place, RayReplica
from evals.types import PromptTooLong, Reply


@pytest.fixture
def made(monkeypatch):
    """The options of each actor that is asked for, in place of the actor."""
    asked = []

    def remote(what):
        def options(**given):
            return SimpleNamespace(
                remote=lambda *arguments: asked.append((what, given, arguments)) or f"actor {len(asked)}"
            )

        return SimpleNamespace(options=options)

    monkeypatch.setattr(actors.ray, "remote", remote)
    return asked


@pytest.mark.parametrize(
    ("needs", "different"),
    [
        ({"gpus": 2, "cpus": 3}, {"num_gpus": 2, "num_cpus": 3}),
        ({"gpus": 1, "labels": {"type": "H100"}}, {"num_gpus": 1, "label_selector": {"type": "H100"}}),
        (
            {"gpus": 4, "cpus": 8, "nodes": 2},
            {"num_gpus": 0, "num_cpus": 5, "memory": None, "scheduling_strategy": ("the group", 0, True)},
        ),
    ],
)
def test_a_replica_holds_its_gpus_itself_or_in_a_group_that_goes_with_it(needs, different, made, monkeypatch):
    removed, killed = [], []

    def make_group(asked, ours):
        assert asked == ReplicaNeeds(**needs) and [*ours] == []
        return "the group", {"GPU": 1.0, "CPU": 5}

    monkeypatch.setattr(actors, "make_group", make_group)
    monkeypatch.setattr(actors, "PlacementGroupSchedulingStrategy", lambda *given: given)
    monkeypatch.setattr(actors, "remove_placement_group", removed.append)
    monkeypatch.setattr(actors.ray, "kill", lambda handle, no_restart: killed.append((handle, no_restart)))
    model = ModelSettings("m", {"type": "simulated"}, Sampling(), ReplicaNeeds(**needs))
    handle = actors.create_replica("replica-3.1", model)
    ((what, options, arguments),) = made
    assert options == {
        **{"num_gpus": 0, "num_cpus": ReplicaNeeds().cpus, "memory": actors.LITTLE_MEMORY},
        **{"max_concurrency": actors.CALLS_AT_ONCE, "max_restarts": 0, "max_task_retries": 0},
        "scheduling_strategy": "SPREAD",
        **different,
    }
    assert what is actors._ReplicaActor and arguments == ("replica-3.1", model.make_engine)
    for _ in range(2):
        actors.end_actor(handle)
    assert killed == [(handle, True)] * 2 and removed == ["the group"] * ("nodes" in needs)


def test_runners_are_placed_in_turn_beginning_on_the_driver_s_node(made, monkeypatch):
    monkeypatch.setattr(actors, "living_nodes", lambda: [{"NodeID": name} for name in "cbda"])
    monkeypatch.setattr(actors.ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: "c"))
    monkeypatch.setattr(actors, "NodeAffinitySchedulingStrategy", lambda node, soft: (node, soft))
    for turn in range(5):
        actors.create_runner(f"r{turn}", "suite", "choice", "policy", turn, "listener")
    assert [options["scheduling_strategy"] for _, options, _ in made] == [(node, True) for node in "cabdc"]
    assert {(options["num_cpus"], options["max_restarts"]) for _, options, _ in made} == {(0, 0)}
    assert made[1][2] == ("r1", "suite", "choice", "policy", "listener")
    monkeypatch.setattr(actors, "living_nodes", list)
    actors.create_runner("alone", "suite", None, "policy", 3, None)
    assert "scheduling_strategy" not in made[-1][1]


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (RayTaskError("complete", "trace", PromptTooLong("9 tokens")), PromptTooLong("9 tokens")),
        (RayTaskError("complete", "trace", EngineError("once")), EngineError("once")),
        (RayActorError(), EngineDiedError),
    ],
)
async def test_errors_of_an_actor_s_call_are_those_of_its_engine(raised, told):
    async def fails(*_):
        raise raised

    handle = SimpleNamespace(complete=SimpleNamespace(remote=fails), complete_group=SimpleNamespace(remote=fails))
    kind = told if isinstance(told, type) else type(told)
    for request in (Request("a", ()), Request("a", (), labels=("A", "B"))):
        with pytest.raises(kind) as found:
            await RayReplica(handle).complete(request)
        assert isinstance(told, type) or str(found.value) == str(told)


async def test_requests_for_labels_go_in_groups_and_others_alone_and_a_canceled_call_is_canceled(monkeypatch):
    asked, canceled = [], []

    async def one(request):
        asked.append(request.id)
        await asyncio.sleep(60 if request.id == "late" else 0)
        return Reply(request.id)

    async def group(requests):
        asked.append([each.id for each in requests])
        return [Reply(each.id) for each in requests]

    replica = RayReplica(
        SimpleNamespace(complete=SimpleNamespace(remote=one), complete_group=SimpleNamespace(remote=group))
    )
    requests = [Request("a", ()), Request("b", (), labels=("A",)), Request("c", ()), Request("d", (), labels=("A",))]
    replies = await asyncio.gather(*map(replica.complete, requests))
    assert [each.text for each in replies] == [*"abcd"] and asked == ["a", "c", ["b", "d"]]
    monkeypatch.setattr(actors.ray, "cancel", canceled.append)
    late = asyncio.create_task(replica.complete(Request("late", ())))
    await asyncio.sleep(0)
    late.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await late
    assert len(canceled) == 1 and late.cancelled()


def test_a_place_is_told_from_others_by_its_gpus_and_named_for_people():
    first, same, other, elsewhere = (
        Place(node, "host", gpus, ())
        for node, gpus in (("n", ("0", "1")), ("n", ("0", "1")), ("n", ("2",)), ("m", ("2",)))
    )
    assert first.device == same.device and len({first.device, other.device, elsewhere.device}) == 3
    none = Place("n", "host", (), ())
    assert none.device != none.device, "replicas without GPUs do not wait for each other"
    assert (str(first), str(none)) == ("GPU 0,1 of host", "host")


@pytest.fixture
def joined(monkeypatch):
    """What Ray was started or joined with; it raises what is put into ``fails``."""
    seen = SimpleNamespace(asked=[], fails=None, open=True)

    def init(**given):
        seen.asked.append(given)
        if seen.fails is not None:
            raise seen.fails

    monkeypatch.setattr(actors.ray, "init", init)
    monkeypatch.setattr(actors, "listens", lambda address: seen.open)
    monkeypatch.setattr(actors, "passed_on", lambda environment: ({"HF_HOME": "/hf"}, ["HF_TOKEN"]))
    for name in ("SLURM_JOB_ID", "RAY_AUTH_MODE", "RAY_OVERRIDE_JOB_RUNTIME_ENV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")
    return seen


def test_ray_is_started_with_the_cores_that_this_process_has(joined, monkeypatch):
    monkeypatch.setattr(actors.os, "sched_getaffinity", lambda process: {3, 5, 7})
    actors.start_ray(ClusterSettings())
    (given,) = joined.asked
    assert (given["address"], given["num_cpus"], given["log_to_driver"]) == ("local", 3, False)
    assert "runtime_env" not in given
    for error in (RuntimeError("no port"), Exception("The current node timed out during startup")):
        joined.fails = error
        with pytest.raises(RunFailedError, match=f"{error}.*raycade doctor"):
            actors.start_ray(ClusterSettings())


@pytest.mark.parametrize("address", [None, "auto"])
@pytest.mark.parametrize(("first", "from_here"), [("", True), ("HERE", True), ("/usr/bin", False)])
def test_workers_import_from_the_working_directory_only_where_the_driver_does(
    joined, monkeypatch, tmp_path, address, first, from_here
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path) if first == "HERE" else first, "/usr/lib"])
    actors.start_ray(ClusterSettings(address=address))
    (given,) = joined.asked
    assert ("job_config" not in given) is from_here
    assert from_here or given["job_config"]._client_job, "for these Ray leaves the paths of workers alone"


def test_a_cluster_is_joined_with_what_may_be_passed_on(joined, monkeypatch, capsys):
    actors.start_ray(ClusterSettings(address="h:6379"))
    (given,) = joined.asked
    assert given["address"] == "h:6379" and given["runtime_env"] == {"env_vars": {"HF_HOME": "/hf"}}
    assert "num_cpus" not in given and "HF_TOKEN" in capsys.readouterr().err
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    actors.start_ray(ClusterSettings(address="auto"))
    assert "HF_TOKEN" not in capsys.readouterr().err, "a job's Ray has the environment"
    joined.fails = ConnectionError("refused")
    for mode, said in (("token", False), ("", True)):
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
        with pytest.raises(UserError, match="no Ray cluster found there") as found:
            actors.start_ray(ClusterSettings(address="h:6379"))
        assert ("export RAY_AUTH_MODE=token too" in str(found.value)) is said
    joined.open = False
    before = len(joined.asked)
    with pytest.raises(UserError, match="the port is closed"):
        actors.start_ray(ClusterSettings(address="h:6379"))
    assert len(joined.asked) == before, "Ray itself would wait for minutes"
