"""What all tests share."""

import gc
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import psutil
import pytest

hypothesis.settings.register_profile("without_deadlines", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("without_deadlines")


CAMPAIGNS = {"test_bad_starts.py", "test_container_image.py"}
"""Files that take many minutes; they are played when they are named: ``pytest tests/cluster/test_bad_starts.py``."""

LONGEST_FIRST = (
    "test_slurm.py",
    "test_chaos.py",
    "test_documented_commands.py",
    "test_vllm_engine.py",
    "test_gpu_kit.py",
    "test_manifests.py",
    "test_viewer_page.py",
    "test_multinode.py",
    "test_tensor_parallel.py",
    "test_wheel.py",
    "test_new.py",
    "test_small_model.py",
    "test_kumo_pipeline.py",
    "test_vllm_kumo_pipeline.py",
    "test_vllm_serve.py",
    "test_run_spend.py",
    "test_prove.py",
    "test_viewer_export.py",
)
"""Files that take half a minute or more, the longest first. A file is played by one worker, so a long one that begins late
keeps one worker busy while the other has nothing left to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files as workers shall take them, with ``--no-loadscope-reorder``."""
    ranks = {name: rank for rank, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: ranks.get(item.path.name, len(ranks)))


NOT_FAST = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.(slow|ray|vllm|browser)\b", re.MULTILINE)
"""How a module says that none of its tests is fast."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave campaigns out unless they are named, and modules without a fast test where only fast tests are asked for."""
    name = collection_path.name
    if name in CAMPAIGNS and not any(name in argument for argument in config.args):
        return True
    only_fast = config.getoption("markexpr").startswith("not (slow")
    if only_fast and name.startswith("test_") and NOT_FAST.search(collection_path.read_text()):
        return True  # they need not be compiled, nor torch and W&B be imported
    return None


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep Python's garbage collector away from what is imported: walking through it again and again takes seconds."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Give back what was kept, or libraries report it as leaked."""
    gc.unfreeze()


@pytest.fixture(autouse=True, scope="session")
def _no_wait_for_the_disk() -> Iterator[None]:
    """Leave out what a file system does so that files survive the loss of power, which no test of this process can see."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: os.fstat(file if isinstance(file, int) else file.fileno()) and None)
        yield


LEFT_BY_LIBRARIES = re.compile(
    "PYTEST_CURRENT_TEST$"  # pytest's own
    "|RAY_|VLLM_|TORCH|KMP_|OMP_|TOKENIZERS_|HF_HUB_OFFLINE$|PYGAME_"  # which libraries and engines set once, for good
)
"""Variables of the environment that a test may leave changed."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1)
"""Without SIGALRM, which is pytest-timeout's: it resets it where a test fails."""


def _state_of_process() -> dict[str, Any]:
    """What all tests of a worker share, and each of them leaves as it was."""
    hydra = sys.modules.get("hydra.core.global_hydra")
    return {
        **{f"${name}": value for name, value in os.environ.items() if not LEFT_BY_LIBRARIES.match(name)},
        **{f"the handler of {number.name}": signal.getsignal(number) for number in SIGNALS},
        "the working directory": Path.cwd(),
        "sys.path": [path for path in sys.path if "/ray/thirdparty_files" not in path],  # Ray's import adds it, once
        "sys.argv": list(sys.argv),
        "Hydra initialized": hydra is not None and hydra.GlobalHydra.instance().is_initialized(),
    }


@pytest.fixture(autouse=True)
def _process_as_before(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a fast test that leaves the process changed: tests after it, in whatever order, would see that.

    Ray, vLLM and a browser install handlers and variables of their own in the process that starts them.
    """
    if any(request.node.get_closest_marker(name) for name in ("slow", "ray", "vllm", "browser")):
        yield
        return
    before = _state_of_process()
    yield
    after = _state_of_process()
    changed = [name for name in sorted(before | after) if before.get(name) != after.get(name)]
    if changed:  # without the values, which may be secrets
        pytest.fail(f"the test leaves changed: {', '.join(changed)}", pytrace=False)


@pytest.fixture
def plugins_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Names a plugin folder until the test ends; raycade then puts it on the import path, here and for child processes."""

    def name(folder: Path) -> None:
        monkeypatch.setenv("RAYCADE_PLUGINS", str(folder))
        monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        monkeypatch.setattr(sys, "path", list(sys.path))

    return name


@pytest.fixture(scope="session")
def ray_cluster(tmp_path_factory) -> Iterator[list[str]]:
    """One Ray for all tests that are not about its start or death: overrides that make `raycade run` join it."""
    patch = pytest.MonkeyPatch()  # what joins it needs the same token
    patch.setenv("RAY_AUTH_MODE", "token")
    patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    log = tmp_path_factory.mktemp("ray") / "log"
    ray = str(Path(sys.executable).with_name("ray"))
    start = [
        ray,
        "start",
        "--head",
        "--port=0",
        "--node-ip-address=127.0.0.1",
        "--num-cpus=4",
        "--include-dashboard=false",
        "--disable-usage-stats",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen([*start, "--block"], stdout=output, stderr=output)
    try:
        while not (found := re.search(r"--address='(\S+:\d+)'", log.read_text())):
            assert process.poll() is None, log.read_text()
            time.sleep(0.2)
        yield ["cluster=ray", f"cluster.address={found[1]}", "cluster.replicas=1"]
    finally:
        for each in psutil.Process(process.pid).children(recursive=True):
            each.kill()
        process.kill()
        process.wait()
        patch.undo()
