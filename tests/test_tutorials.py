"""The tutorials for a suite and an engine, followed as an outsider would: their code, packed, installed and run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.config.settings import load_settings
from cluster.errors import UserError
from tests.cluster.conftest import EASY

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^\*\*(\S+)\*\*\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^raycade (.*)$", re.MULTILINE)


def files_of(page: str) -> dict[str, str]:
    """The files that a page shows, by name."""
    return dict(BLOCK.findall((ROOT / "docs" / page).read_text()))


def call(*command: str, paths: list[Path], **more: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [ROOT, *paths])), **more}
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=paths[0], timeout=300)


def install(package: Path, site: Path) -> None:
    """Build a package as a wheel and install it into a folder."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels = site.with_name("wheels")
    wheel = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), "."]
    subprocess.run(wheel, cwd=package, check=True, capture_output=True)
    (built,) = wheels.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(built)], check=True, capture_output=True)


@pytest.fixture(scope="module", params=["new_suite.md", "new_engine.md"])
def installed(request, tmp_path_factory):
    """A tutorial's package built as a wheel and installed into a folder, and its page."""
    folder = tmp_path_factory.mktemp("tutorial")
    package, site = folder / "package", folder / "site"
    package.mkdir()
    for name, text in files_of(request.param).items():
        (package / name).write_text(text)
    install(package, site)
    return request.param, package, site


@pytest.mark.slow
def test_the_tutorials_own_tests_pass(installed):
    _, package, site = installed
    done = call(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(package), paths=[package, site])
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_plugin_folder_works_like_a_package(tmp_path, plugins_in):
    files = files_of("new_suite.md")
    for name in ("number_hunt.py", "plugins.toml"):
        (tmp_path / name).write_text(files[name])
    words = ["suite=number_hunt", "suite.highest=31", "model=oracle"]
    with pytest.raises(UserError, match="number_hunt"):
        load_settings(words)
    plugins_in(tmp_path)
    assert load_settings(words).plan[0].task == "1-31"


@pytest.mark.ray
def test_an_engine_in_a_folder_is_found_by_replicas(tmp_path, ray_cluster):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "keyword_engine.py").write_text(files_of("new_engine.md")["keyword_engine.py"])
    (folder / "plugins.toml").write_text('["raycade.engines"]\nkeyword = "keyword_engine:KeywordEngine"\n')
    small = [*EASY, "suite.tasks_per_domain=1"]
    words = ["run", *small, "model=keyword", *ray_cluster]
    done = call(sys.executable, "-m", "cluster", *words, paths=[tmp_path], RAYCADE_PLUGINS=str(folder))
    assert done.returncode == 0, done.stderr


@pytest.mark.ray
def test_the_tutorials_commands_run(installed, ray_cluster):
    page, package, site = installed
    cluster = ray_cluster if page == "new_engine.md" else []
    for words in COMMAND.findall((ROOT / "docs" / page).read_text()):
        done = call(sys.executable, "-m", "cluster", *words.split(), *cluster, paths=[package, site])
        assert done.returncode == 0, done.stderr
    assert "ledger, tables and summary" in done.stdout
