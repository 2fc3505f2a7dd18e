"""The image of the container: built, plays the demo without a network, and a Slurm job plays in it. Played when named."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from benchmarks import container
from tests import slurm_world
from tests.cluster.test_slurm import COMMITS, ENDED, GAMES, SUBMIT


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("container")
    yield container.build(folder)
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(bool(container.why_not()), reason=container.why_not() or "a container can be built")
class TestInTheContainer:
    def test_the_demo_is_played_without_a_network_and_with_a_read_only_root(self, image, tmp_path_factory):
        tmp_path = tmp_path_factory.mktemp("plain")
        for folder in (tmp_path, *tmp_path.parents[:2]):
            folder.chmod(0o755)
        home = tmp_path / "home"
        tried = container.inside(image, ["sh", "-c", "id -u; touch /opt/raycade/x; wget -q -T 3 http://1.1.1.1"], home)
        assert tried.stdout == f"{container.USER}\n"
        assert "Read-only file system" in tried.stderr and tried.returncode == 4, "no network"
        home = tmp_path / "home2"
        done = container.inside(image, ["raycade", "run", f"run_dir={home}/run"], home)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "oracle" in done.stdout and (home / "run" / "summary.json").exists()

    @pytest.mark.skipif(bool(slurm_world.why_not()), reason=slurm_world.why_not() or "Slurm can be started")
    def test_a_slurm_job_plays_in_it_on_two_nodes(self, image, tmp_path):
        # Not /tmp, where another Slurm's first job may be; short, for the paths of Unix sockets.
        temporary = {"RAYCADE_TMPDIR": tempfile.mkdtemp(dir="/tmp")}
        with slurm_world.slurm(tmp_path / "slurm") as world:
            command = [SUBMIT, "submit", "--nodes=2", "--cpus-per-task=2", f"--container={image}", "--", *GAMES]
            submitted = subprocess.run(
                [*command, *COMMITS, "model.replica.cpus=1", "suite.repeats=1", f"run_dir={tmp_path}/run"],
                env={**world.environment, **temporary}, cwd=world.folder, capture_output=True, text=True, check=False,
            )  # fmt: skip
            number = submitted.stderr.split("submitted job ")[1].split(".")[0]
            state = world.wait_for(number, *ENDED, seconds=400)
            log = (world.folder / f"raycade-{number}.log").read_text()
        assert state["JobState"] == "COMPLETED", log
        assert "2 Ray nodes are ready" in log and "25/25" in log
        made_by = (tmp_path / "run" / "versions.json").read_text()
        assert "/opt/raycade" in made_by or sys.prefix not in made_by
