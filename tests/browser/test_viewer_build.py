"""The built page in the repository is what its source builds to."""

import shutil
import subprocess

import pytest

from tests.cluster.conftest import ROOT

pytestmark = pytest.mark.browser


def test_the_built_files_match_their_source(frontend):
    done = subprocess.run([shutil.which("npm"), "run", "build"], cwd=frontend, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for room in ("viewer", "human"):
        made = frontend.parent.parent / room / "static"
        built = {path.name: path.read_bytes() for path in made.iterdir()}
        stored = {path.name: path.read_bytes() for path in (ROOT / "evals" / room / "static").iterdir()}
        assert built.keys() == stored.keys()
        for name, content in built.items():
            assert content == stored[name], (
                f"{room}/static/{name} is not what its source builds to: npm run build in evals/viewer/frontend"
            )


@pytest.mark.parametrize("script", ["check", "test"])
def test_the_front_end_s_own_checks_pass(frontend, script):
    """Style and likely mistakes (biome), and unit tests of what needs no page (vitest)."""
    done = subprocess.run([shutil.which("npm"), "run", script], cwd=frontend, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
