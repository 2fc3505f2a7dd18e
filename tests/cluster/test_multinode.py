"""Three hosts with separate networks and one Ray node each, one of which is lost during the run."""

import json
import secrets
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cluster.storage.stored_run import Run
from tests import network_world
from tests.cluster.conftest import ROOT, raycade

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(bool(network_world.why_not()), reason=network_world.why_not() or "hosts can be made"),
]

CPUS = 2
GAMES = [
    "suite=kumo",
    "suite.domains=[medical]",
    "suite.difficulties=[easy]",
    "suite.tasks_per_domain=50",
    "suite.repeats=4",
    "model=simulated",
    "model.engine.max_num_seqs=4",
    "model.engine.median_tokens=40",
    "model.engine.tail=0.7",
    "model.replica.cpus=1",
    "cluster.runners=3",
    "cluster.commit_seconds=0.3",
    "cluster.health_seconds=1",
    "cluster.health_timeout=60",  # a busy machine is no death; Ray tells the loss of a host
]


class Site:
    """A Ray cluster of three hosts, and runs on it."""

    def __init__(self, network: network_world.Network, folder: Path) -> None:
        self.network = network
        self.folder = folder
        self.environment = {
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_AUTH_MODE": "token",
            "RAY_USAGE_STATS_ENABLED": "0",
            # When Ray declares an unresponsive node dead: by default after about a minute.
            "RAY_health_check_period_ms": "1000",
            "RAY_health_check_timeout_ms": "3000",
            "RAY_health_check_failure_threshold": "3",
            "PYTHONPATH": str(ROOT),
        }
        self.address = network_world.start_ray(network, folder, CPUS, self.environment)

    def start(self, run_dir: Path, *overrides: str) -> subprocess.Popen:
        """A run whose driver is on the first host and joins by address."""
        command = [sys.executable, "-m", "cluster", "run", *GAMES, "cluster=ray", f"cluster.address={self.address}"]
        return self.network.hosts[0].start(
            [*command, f"run_dir={run_dir}", *overrides], self.log(run_dir), self.environment
        )

    def log(self, run_dir: Path) -> Path:
        return self.folder / f"{run_dir.name}.log"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with network_world.hosts(3) as network:
        yield Site(network, tmp_path_factory.mktemp("site"))


def rows(run_dir: Path) -> int:
    return sum(pq.read_metadata(part).num_rows for part in (run_dir / "episodes").glob("part-*.parquet"))


def kinds(host: network_world.Host) -> set[str]:
    """Which of our actors live on a host."""
    titles = {"replica": "_ReplicaActor", "runner": "_RunnerActor"}
    lines = host.processes()
    return {kind for kind, title in titles.items() if any(title in line for line in lines)}


def assert_nothing_is_left(hosts: list[network_world.Host]) -> None:
    """A host's Ray node ends the actors of an ended run a moment after that run has ended."""
    end = time.monotonic() + 30
    while any(kinds(host) for host in hosts):
        assert time.monotonic() < end, "actors of an ended run are left"
        time.sleep(0.1)


@pytest.mark.timeout(1800)  # a minute alone, but several times as long beside others
def test_a_run_over_three_hosts_outlives_one_of_them(site, tmp_path):
    calm = tmp_path / "calm"
    one_process = ["cluster=inline", "cluster.runners=1", "model.engine.max_num_seqs=200"]
    alone = raycade("run", *GAMES, *one_process, f"run_dir={calm}")
    assert alone.returncode == 0, alone.stderr

    disturbed = tmp_path / "disturbed"
    process = site.start(disturbed)
    planned = len(Run(calm).plan)
    everywhere = False
    while rows(disturbed) < planned // 4:
        assert process.poll() is None, site.log(disturbed).read_text()
        everywhere = everywhere or all(kinds(host) == {"replica", "runner"} for host in site.network.hosts)
        time.sleep(0.05)
    assert everywhere, "a runner and replicas on each host"
    lost = site.network.hosts[-1]
    assert kinds(lost) == {"replica", "runner"}, "the host to lose has work"
    site.network.lose(lost)
    done = rows(disturbed)
    assert process.wait(timeout=300) == 0, site.log(disturbed).read_text()

    assert done < planned, "the host was lost before the end"
    log = site.log(disturbed).read_text()
    assert "replacing it" in log and "requeued its" in log, f"a replica and a runner were missed:\n{log}"
    ledger = Run(disturbed).episodes()["episode_id"].to_pylist()
    assert sorted(ledger) == sorted(episode.id for episode in Run(disturbed).plan), "each planned episode exactly once"
    summary = json.loads((disturbed / "summary.json").read_text())
    assert summary == json.loads((calm / "summary.json").read_text())
    assert_nothing_is_left(site.network.hosts[:2])
