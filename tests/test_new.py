"""``raycade new``: what it writes works as it stands, by the commands that its README names."""

import errno
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cluster.cli import main
from cluster.scaffold.new import KINDS, write_package
from tests.test_tutorials import ROOT, call, install

COMMAND = re.compile(r"^    (raycade|python -m pytest) (.*?)(?:\s{2,}#.*)?$", re.MULTILINE)
PROGRAMS = {"raycade": ("-m", "raycade"), "python -m pytest": ("-m", "pytest", "-q", "-p", "no:cacheprovider")}
NAMES = {"suite": "dark_squares", "engine": "first_option", "task": "odd_fruit", "domain": "pond"}


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.parametrize("kind", KINDS)
def test_every_command_of_a_new_package_succeeds(kind, tmp_path, ray_cluster):
    package, site = tmp_path / "package", tmp_path / "site"
    write_package(kind, NAMES[kind], package)
    if kind != "domain":
        install(package, site)
    commands = COMMAND.findall((package / "README.md").read_text())
    assert {program for program, _ in commands} == set(PROGRAMS)
    outputs = {}
    for program, words in commands:
        arguments = words.split()
        if kind == "engine" and arguments[0] == "run":
            arguments += ray_cluster
        done = call(sys.executable, *PROGRAMS[program], *arguments, paths=[package, site])
        assert done.returncode == 0, f"{program} {words}\n{done.stdout}{done.stderr}"
        outputs[arguments[0]] = done.stdout
    assert "ledger, tables and summary" in outputs["run"]
    if kind in ("suite", "task"):
        assert re.search(r"pictures of first turns, rendered +[1-9]", outputs["plan"]), outputs["plan"]


@pytest.mark.slow
def test_the_code_of_new_packages_is_typed_and_formatted(tmp_path):
    kinds = ("suite", "engine", "task")
    for kind in kinds:
        write_package(kind, NAMES[kind], tmp_path / kind)
    modules = [str(tmp_path / kind / f"{NAMES[kind]}.py") for kind in kinds]
    for command in (
        ["ruff", "check", f"--config={ROOT / 'pyproject.toml'}", *modules],
        ["ruff", "format", "--check", f"--config={ROOT / 'pyproject.toml'}", str(tmp_path)],
        ["mypy", "--strict", "--follow-imports=silent", *modules],
    ):
        done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["suite", "kumo"], "an installed suite"),
        (["engine", "vllm"], "an installed engine"),
        (["suite", "json"], "an installed Python module"),
        (["task", "Odd"], "lower-case"),
        (["domain", "../pond"], "lower-case"),
        (["suite", "class"], "no word of Python"),
        (["suite", "true"], "True, which is a word of Python's"),
        (["suite", "outcome"], "Outcome would take the place"),
        (["engine", "sampling"], "Sampling would take the place"),
        (["task", "action"], "Action would take the place"),
        (["task", "check_task"], "check_task would take the place"),
        (["task", "m_de"], "MDE is a task of KidGym's"),
        (["suite", "demo"], "suite=demo is another one"),
        (["suite", "raven"], "a kind of pictures"),
        (["engine", "tiny"], "model=tiny is another one"),
        (["engine", "qwen2_5_vl_7b"], "model=qwen2_5_vl_7b is another one"),
        (["domain", "pond", "--folder", "full"], "exists"),
        (["domain", "pond", "--folder", "/proc/pond"], "cannot be written"),
    ],
)
def test_a_name_or_folder_that_cannot_be_used_is_refused_and_nothing_written(
    words, named, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    with pytest.raises(SystemExit) as end:
        main(["new", *words])
    assert end.value.code == 2 and named in capsys.readouterr().err
    assert {path.name for path in tmp_path.rglob("*")} == {"full", "mine.txt"}


@pytest.mark.parametrize("name", ["null", "true", "no", "on", "pond"])
def test_a_domain_may_be_called_by_a_word_of_yaml(name, tmp_path):
    write_package("domain", name, tmp_path)
    domain = yaml.safe_load((tmp_path / f"{name}.yaml").read_text())
    assert (domain["name"], domain["title"]) == (name, name.capitalize())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", [0, 1])
def test_a_full_disk_leaves_no_half_package_and_the_same_command_writes_it_later(
    kind, before, tmp_path, monkeypatch, capsys
):
    real, written = Path.write_text, []

    def full(path, text, **named):
        real(path, text[: len(text) // 2], **named)
        if len(written) == before:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(path)

    folder = tmp_path / "here"
    command = ["new", kind, NAMES[kind], "--folder", str(folder)]
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        with pytest.raises(SystemExit) as end:
            main(command)
    assert end.value.code == 1 and "No space left" in capsys.readouterr().err
    assert not [*folder.iterdir()]
    with pytest.raises(SystemExit) as end:
        main(command)
    assert end.value.code == 0


def test_it_writes_where_it_is_told_and_says_what_to_do_next(tmp_path, capsys):
    folder = tmp_path / "here"
    with pytest.raises(SystemExit) as end:
        main(["new", "suite", "dark_squares", "--folder", str(folder)])
    assert end.value.code == 0 and "pip install ." in capsys.readouterr().out
    files = {path.name for path in folder.iterdir()}
    assert files == {"README.md", "dark_squares.py", "pyproject.toml", "test_dark_squares.py"}
    assert not any("$" in path.read_text() for path in folder.iterdir())
