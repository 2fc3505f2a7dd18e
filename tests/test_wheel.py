"""A wheel of raycade in an environment beside a distribution whose packages have the same names."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.cluster.conftest import EASY

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
INNER = ("envs", "evals", "cluster", "conf")
NOT_INSTALLED = {".sh", ".ts", ".tsx", ".mjs", ".jsonc"}
"""What a checkout has and a wheel does not: scripts of a checkout, sources of the viewer's page."""
GAME = [*EASY, "suite.tasks_per_domain=1"]
OF_SUITES = {"kumo": ("pysat", "numba", "networkx"), "kidgym": ("resvg_py", "emosvg"), "both": ("gymnasium",)}
"""Packages that only these suites need."""


def pip(python: Path, *arguments: object) -> None:
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment_of_user())
    assert done.returncode == 0, done.stderr


def environment_of_user() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "RAYCADE_PLUGINS")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, so that the checkout stays as it is."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "copy"
    leave = shutil.ignore_patterns("__pycache__", "node_modules")
    for name in ("raycade", *INNER):
        shutil.copytree(ROOT / name, copy / name, ignore=leave)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, copy)
    pip(Path(sys.executable), "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, copy)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Another distribution's wheel, with packages and modules named like ours."""
    folder = tmp_path_factory.mktemp("other")
    for name in INNER:
        (folder / name).mkdir()
        for module in ("__init__", "suite", "plugins", "cli"):
            (folder / name / f"{module}.py").write_text("OURS = False\n")
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        f'[project]\nname = "evals"\nversion = "3"\n[tool.setuptools]\npackages = {[*INNER]}\n'
    )
    pip(Path(sys.executable), "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, other, tmp_path_factory):
    """A virtual environment with both, and with the installed dependencies but for raycade itself, as links."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    site = folder / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "raycade" not in entry.name and entry.name != "__pycache__":
            (site / entry.name).symlink_to(entry)
    pip(folder / "bin" / "python", "install", "--no-deps", other, wheel)
    return folder, site


def call(folder: Path, program: str, *words: str, cwd: Path) -> subprocess.CompletedProcess:
    command = [str(folder / "bin" / program), *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment_of_user(), cwd=cwd, timeout=300)


def test_a_wheel_has_one_package_with_all_data_files_and_licenses(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"raycade", "raycade.pth"}
    for package in ("raycade", *INNER):
        for path in (ROOT / package).rglob("*"):
            relative = path.relative_to(ROOT).as_posix()
            made = {"node_modules", "__pycache__"} & {*path.parts}
            source = path.suffix in NOT_INSTALLED or path.name == ".gitignore"
            if path.is_file() and not made and not source:
                stored = relative if package == "raycade" else f"raycade/_packages/{relative}"
                assert stored in names, f"{relative} is missing"
    for package in ("raycade", *(f"raycade/_packages/{name}" for name in INNER)):
        assert f"{package}/py.typed" in names
    licenses = {name.partition(".dist-info/licenses/")[2] for name in names}
    assert {"LICENSE", "NOTICE", "envs/page/glyphs/LICENSE"} <= licenses


def test_it_runs_beside_packages_of_the_same_names_and_leaves_them_alone(installed, tmp_path):
    folder, site = installed
    for words in (["--help"], ["run", *GAME, "model=random", "suite.repeats=1", f"run_dir={tmp_path / 'run'}"]):
        done = call(folder, "raycade", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    where = "".join(f"import {name}; print({name}.__file__);" for name in INNER)
    theirs = call(folder, "python", "-c", where, cwd=tmp_path)
    assert theirs.stdout.split() == [str(site / name / "__init__.py") for name in INNER]
    ours = call(folder, "python", "-c", f"import raycade.suite; {where}", cwd=tmp_path)
    packages = site / "raycade" / "_packages"
    assert ours.stdout.split() == [str(packages / name / "__init__.py") for name in INNER], ours.stderr
    for name in INNER:
        late = call(folder, "python", "-c", f"import {name}, raycade", cwd=tmp_path)
        assert "ImportError" in late.stderr and repr(name) in late.stderr


@pytest.mark.ray
def test_workers_of_ray_find_its_packages_first(installed, tmp_path):
    folder, _ = installed
    words = ["run", *GAME, "suite.repeats=1", "model=simulated", f"run_dir={tmp_path / 'run'}"]
    done = call(folder, "raycade", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "ledger, tables and summary" in done.stdout


def test_a_suite_needs_only_its_own_extra_and_names_it(installed, tmp_path):
    folder, site = installed
    aside = tmp_path / "aside"
    aside.mkdir()
    for packages in OF_SUITES.values():
        for package in packages:
            (site / package).rename(aside / package)
    small = {
        "kidgym": "suite.episodes=1",
        "kumo": "suite.tasks_per_domain=1",
        "kumo_pipeline": "suite.folder=books",
        "multistar": "suite.puzzles=1",
    }

    def planned(suite: str) -> subprocess.CompletedProcess:
        return call(folder, "raycade", "plan", f"suite={suite}", small[suite], "model=oracle", cwd=tmp_path)

    try:
        assert planned("multistar").returncode == 0
        for suite, extra in {"kumo": "kumo", "kidgym": "kidgym", "kumo_pipeline": "kumo"}.items():
            refused = planned(suite)
            assert refused.returncode == 2 and f"raycade[{extra}]" in refused.stderr, refused.stderr
        command = call(folder, "raycade", "kumo", "validate", "medical", cwd=tmp_path)
        assert command.returncode == 2 and "raycade[kumo]" in command.stderr, command.stderr
        for suite, without in {"kumo": "kidgym", "kidgym": "kumo"}.items():
            present = [package for each in (suite, "both") for package in OF_SUITES[each]]
            for package in present:
                (aside / package).rename(site / package)
            done = planned(suite)
            assert done.returncode == 0, f"without what {without} needs: {done.stderr}"
            for package in present:
                (site / package).rename(aside / package)
    finally:
        for package in aside.iterdir():
            package.rename(site / package.name)
