"""What is asked of Ray, and how its answers are read, with stand-ins for it, as on record in ``tests/golden``."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace

from ray.exceptions import RayActorError, RayTaskError

from cluster.config.model import ModelSettings, ReplicaNeeds
from cluster.config.settings import ClusterSettings
from cluster.engines.base import Request, Sampling
from cluster.errors import RunFailedError
from cluster.ray_backend import actors, bundles, capacity
from cluster.ray_backend.environment import passed_on
from cluster.runner.messages import Assignment
from tests.said import Said, Thing
from tests.toy import ToySuite


def of_needs(**needs):
    return ModelSettings("m", {"type": "simulated"}, Sampling(), ReplicaNeeds(**needs))


def node(name, alive=True, labels=None, **resources):
    return {
        "NodeID": name,
        "Alive": alive,
        "Labels": labels,
        "Resources": resources,
        "NodeManagerAddress": f"at {name}",
    }


def test_room(capsys, monkeypatch):
    said = Said(capsys)
    alike = [node("a", GPU=2.0, CPU=8.0), node("b", GPU=1.0, CPU=3.0, labels={"type": "x"}), node("c", CPU=0.5)]
    clusters = {"three": [*alike, node("d", alive=False, GPU=99.0, CPU=99.0)], "none": [], "bare": [node("e")]}
    needs = [{}, {"gpus": 0, "cpus": 0}, {"gpus": 0.5, "cpus": 0.25}, {"gpus": 0, "cpus": 2}, {"gpus": 1, "cpus": 0}]
    needs += [{"nodes": 2}, {"labels": {"type": "x"}}, {"labels": {"type": "!x"}, "gpus": 0, "cpus": 1, "nodes": 3}]
    for name, nodes in clusters.items():
        monkeypatch.setattr(capacity.ray, "nodes", lambda nodes=nodes: nodes)
        for given in needs:
            model = of_needs(**given)
            runners = [capacity.count_runners(ClusterSettings(replicas=n), model) for n in ("fit", 8, 9, 16, 17)]
            said(f"{name} {given}: {capacity.replicas_that_fit(model)} fit, runners", runners)
            for replicas in ("fit", 1, 3):
                said.tried(replicas, capacity.check_fit, ClusterSettings(replicas=replicas), model)
        for engine in (None, {}):
            model = ModelSettings("oracle", engine, Sampling(), ReplicaNeeds(gpus=9))
            said.tried(f"engine {engine}", capacity.check_fit, ClusterSettings(), model)
    monkeypatch.setattr(bundles, "living_nodes", lambda: alike)
    monkeypatch.setattr(bundles, "available_resources_per_node", lambda: {"a": {"GPU": 2.0, "CPU": 8.0}, "b": {}})
    monkeypatch.setattr(bundles, "placement_group", said.calls("group", "a group"))
    for given in ({"nodes": 2, "cpus": 3}, {"gpus": 0, "nodes": 2}, {"gpus": 2, "cpus": 0, "labels": {"type": "x"}}):
        said(bundles.make_group(ReplicaNeeds(**given), []))
    said.check("room")


def test_starts(capsys, monkeypatch):
    said = Said(capsys)
    names = ("RAY_USAGE_STATS_ENABLED", "RAY_OVERRIDE_JOB_RUNTIME_ENV", "SLURM_JOB_ID", "RAY_AUTH_MODE")
    variables = dict.fromkeys(names, "")
    variables |= {"HF_HOME": "/hf", "HF_TOKEN": "secret", "LC_ALL": "C", "VLLM_PORT": "2"}
    variables |= {"NCCL_DEBUG": "", "https_proxy": "http://me@p", "RAYCADE_PLUGINS": "/a@b", "XHF_HOME": "x"}
    said(passed_on(variables))
    fails = []

    def init(**given):
        said("-> init", given, [(name, os.environ.get(name)) for name in names])
        if fails:
            raise fails.pop()

    monkeypatch.setattr(actors, "ray", SimpleNamespace(init=init))
    monkeypatch.setattr(actors, "listens", said.calls("listens", lambda address: address != "closed:1"))
    monkeypatch.setattr(actors.plugins, "folders", said.calls("plugins"))
    monkeypatch.setattr(actors.os, "sched_getaffinity", said.calls("cores", {3, 5, 7}))
    found = ({"HF_HOME": "/hf"}, ["HF_TOKEN", "B"]), ({}, [])
    for address, error, passed, more in (
        *((None, None, 0, {}), (None, OSError("no room"), 0, {}), (None, RayActorError(error_msg="gone"), 0, {})),
        *(("h:6379", None, 0, {}), ("closed:1", None, 0, {}), ("auto", None, 1, {"SLURM_JOB_ID": "7"})),
        *(("h:1", ConnectionError("refused"), 0, {"SLURM_JOB_ID": "7"}), ("auto", ValueError("odd"), 1, {})),
        ("auto", RuntimeError("token"), 1, {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "1"}),
    ):
        for name in names:
            monkeypatch.delenv(name, raising=False)
        for name, value in more.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(actors, "passed_on", lambda environment, passed=passed: found[passed])
        fails[:] = [error] if error else []
        try:
            said.tried(address, actors.start_ray, ClusterSettings(address=address))
        except RunFailedError as failed:
            said(failed)
    for text in ("one", " \n\n  two \nthree", "", "\n"):
        said(repr(actors.first_line(ValueError(text))))
    said.check("ray_starts")


class Handle:
    """An actor that answers the same, or raises it, whatever it is asked."""

    def __init__(self, said, answer):
        self.said, self.answer = said, answer

    def __getattr__(self, name):
        async def remote(*given):
            self.said("asked", name, *given)
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        return SimpleNamespace(remote=remote)


def test_actors(capsys, monkeypatch):
    said = Said(capsys)
    context = SimpleNamespace(get_node_id=lambda: "b")
    monkeypatch.setattr(actors, "ray", Thing(said, "ray", get_runtime_context=lambda: context))
    monkeypatch.setattr(actors, "make_group", said.calls("make_group", ("group", {"GPU": 1.0})))
    for name in ("NodeAffinitySchedulingStrategy", "PlacementGroupSchedulingStrategy", "remove_placement_group"):
        monkeypatch.setattr(actors, name, said.calls(name, name[:5]))
    for needs in ({"gpus": 2, "cpus": 3}, {"labels": {"a": "b"}}, {"nodes": 2, "labels": {"a": "b"}}):
        handle = actors.create_replica("replica-3.1", of_needs(**needs))
        for _ in range(2):
            actors.end_actor(handle)
    for nodes in ("cba", ""):
        monkeypatch.setattr(actors, "living_nodes", lambda nodes=nodes: [node(name) for name in nodes])
        for turn in (0, 1, 2, 4):
            actors.create_runner(f"r{turn}", "suite", "choice", "sticky", turn, "listener").end()
    said.check("ray_actors")


async def test_answers(capsys, monkeypatch):
    said = Said(capsys)

    def remote(what):
        said("task of", what.__name__)
        answer = Handle(said, "by a task").run
        return SimpleNamespace(options=lambda **given: said("options", given) or answer)

    ray = SimpleNamespace(remote=remote)
    monkeypatch.setattr(actors, "ray", ray)
    monkeypatch.setattr(actors, "NodeAffinitySchedulingStrategy", said.calls("on node", "there"))
    place = actors.Place("b", "host", ("0",), ("log", "err"))
    for answer in ("by the actor", RayActorError(error_msg="gone"), TimeoutError()):
        said(await actors.read_log(Handle(said, answer), place))
    port = actors.RayRunner(Handle(said, 7))
    said(await port.exchange("assignment"), await port.node())
    for answer in (5, RayActorError(error_msg="gone"), RayTaskError("complete", "trace", ValueError("wrong"))):
        for labels in ((), ("A",)):
            port = actors.RayReplica(Handle(said, [answer] if labels and answer == 5 else answer))
            try:
                said(await port.complete(Request("id", (), labels=labels)))
            except Exception as error:
                said(type(error).__name__, str(error).splitlines()[0])
    said.check("ray_answers")


async def test_processes(capsys, monkeypatch, tmp_path):
    said = Said(capsys, tmp_path)
    gpus = iter([{"GPU": ["0", "2"]}, {}, {"GPU": []}])
    context = SimpleNamespace(get_node_id=lambda: 5, get_accelerator_ids=lambda: next(gpus))
    monkeypatch.setattr(actors, "ray", SimpleNamespace(get_runtime_context=lambda: context))
    logs = [str(tmp_path / name) for name in ("out", "err")]
    for name in logs:
        Path(name).write_text(f"{name[-3:]} 1\n{name[-3:]} 2")
    streams = iter([*logs, logs[0], logs[0], logs[0], "/dev/null"])
    opened = lambda path: SimpleNamespace(resolve=lambda: said(path) or next(streams), is_file=lambda: path in logs)  # noqa: E731
    monkeypatch.setattr(actors, "Path", opened)
    monkeypatch.setattr(actors.socket, "gethostname", lambda: "here")
    replica = actors._ReplicaActor("replica-0.0", None)
    for _ in range(3):
        said(repr(await replica.place()))
    said(repr(await replica.last_lines(logs)))
    monkeypatch.setattr(actors, "RunnerMetrics", lambda name: SimpleNamespace(show=said.calls(f"show {name}")))
    monkeypatch.setattr("cluster.runner.runner.REPORT_SECONDS", 0.0)
    suite, listener = ToySuite(episodes=1, turns=1), SimpleNamespace(news=lambda: ("a line",))
    for decoding, policy in (("free", "least_loaded"), (None, "sticky")):
        runner = actors._RunnerActor("name", suite, decoding, policy, listener)
        player = runner.model and (runner.model.decoding, runner.model.router.policy)
        said(runner.suite is suite, player, runner._listener is listener, await runner.node())
        said((await runner.exchange(Assignment())).room)
        runner.end()
        await asyncio.sleep(0)
    said.check("ray_processes")
