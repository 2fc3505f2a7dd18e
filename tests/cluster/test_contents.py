"""Files that settings name: their content decides the ids, not their place, and a chat template goes along with the run."""

import json
import os
import shutil

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from cluster.cli import main
from cluster.commands.repeat import repeated_settings
from cluster.config import contents
from cluster.config.compose import as_written
from cluster.config.contents import by_content
from cluster.config.settings import check_environment, load_settings
from cluster.engines.template_files import given_template
from cluster.errors import UserError
from cluster.storage.run_directory import RunDirectory
from cluster.storage.stored_run import Run
from tests.cluster.conftest import EASY

TEMPLATE = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{{ '>>>${' }}${recipient}"
TINY = [*EASY, "suite.tasks_per_domain=1", "suite.repeats=1", "model=tiny"]


def settings(*overrides):
    return load_settings([*TINY, *overrides])


def ids(*overrides):
    return [episode.id for episode in settings(*overrides).plan]


@pytest.mark.slow
def test_a_template_counts_by_its_text_wherever_it_lies(tmp_path):
    first, second = tmp_path / "a.jinja", tmp_path / "b.jinja"
    first.write_text(TEMPLATE)
    second.write_text(TEMPLATE)
    named = [f"model.engine.chat_template={path}" for path in (first, second)]
    assert ids(named[0]) == ids(named[1]) != ids()
    second.write_text(TEMPLATE + " ")
    assert ids(named[0]) != ids(named[1])


@pytest.mark.slow
def test_a_run_keeps_its_template_when_the_file_is_gone(tmp_path):
    path = tmp_path / "own.jinja"
    path.write_text(TEMPLATE)
    before = settings(f"model.engine.chat_template={path}", f"run_dir={tmp_path / 'run'}")
    assert before.model.engine["chat_template"] == TEMPLATE, "what replicas get, wherever they run"
    directory = RunDirectory(before.run_dir)
    directory.claim()
    directory.begin(before.plan, {"config.yaml": before.config})
    directory.begin_session(yaml.safe_load(before.config))
    directory.release()
    assert Run(before.run_dir).config["model"]["engine"]["chat_template"] == TEMPLATE
    path.unlink()
    again = repeated_settings(Run(before.run_dir), [])
    assert (again.model, again.plan) == (before.model, before.plan)
    with pytest.raises(UserError, match=r"model\.engine\.chat_template=.*own\.jinja: cannot be read"):
        settings(f"model.engine.chat_template={path}")
    path.write_text("no template")
    with pytest.raises(UserError, match="holds no template"):
        settings(f"model.engine.chat_template={path}")


def model_folder(home):
    home.mkdir()
    (home / "config.json").write_text(json.dumps({"architectures": ["Qwen2ForCausalLM"]}))
    (home / "model.safetensors").write_bytes(bytes(3 * contents.WHOLE))
    return str(home)


def test_a_folder_counts_by_what_is_read_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(contents, "WHOLE", 10_000)
    model = model_folder(tmp_path / "model")
    copy = shutil.copytree(model, tmp_path / "copy")
    section = {"model": model, "vllm": {"default_mm_loras": {"image": model}, "dtype": "auto", "none": None}}
    found = by_content(section)
    assert found == by_content(json.loads(json.dumps(section).replace(model, str(copy))))
    assert found["vllm"]["dtype"] == "auto" and found["vllm"]["none"] is None
    for unread in (
        "README.md",
        "README.txt",
        "LICENSE.txt",
        ".gitattributes",
        ".hidden.json",
        "training.log",
        "optimizer",
    ):
        (copy / unread).write_text("x")
    (copy / "folder.json").mkdir()
    assert by_content(str(copy)) == found["model"], "nothing that is read"
    for change in ("config.json", "chat_template.jinja", "model.safetensors", "code.py", "merges.txt"):
        with (copy / change).open("ab") as file:
            file.write(b" ")
        assert by_content(str(copy)) != found["model"], change
        shutil.rmtree(copy)
        shutil.copytree(model, copy)
    with (copy / "model.safetensors").open("r+b") as file:  # other weights of the same size
        file.write(os.urandom(3 * contents.WHOLE))
    assert by_content(str(copy)) != found["model"]


def test_names_on_the_hub_and_paths_of_other_machines_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("Qwen/Qwen3-8B", "tiny", "/on/another/machine", "auto", ""):
        assert by_content({"model": name}) == {"model": name}
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text("{}")
    assert by_content({"model": "tiny"}) == {"model": "tiny"}
    (tmp_path / "mine").symlink_to(tmp_path / "tiny")
    assert by_content({"model": "mine"}) != {"model": "mine"}, "a folder beside, as vLLM takes it"


@pytest.mark.slow
def test_ids_of_a_model_in_a_folder_follow_its_content(tmp_path):
    model = model_folder(tmp_path / "model")
    copy = shutil.copytree(model, tmp_path / "copy")

    def played(folder):
        return ids(f"model.engine.model={folder}", "model.name=mine")

    assert played(model) == played(copy) != ids("model.name=mine")
    (copy / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    assert played(model) != played(copy)


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_folder_that_is_gone_is_told_before_anything_starts(tmp_path, command, capsys):
    gone = tmp_path / "gone"
    with pytest.raises(SystemExit, match="2"):
        main([command, *TINY, "model.name=mine", f"model.engine.vllm.generation_config={gone}"])
    said = " ".join(capsys.readouterr().err.split())
    assert "model.engine.vllm.generation_config=" in said and "there is no such file or folder" in said
    elsewhere = settings(f"model.engine.vllm.tokenizer={gone}", "cluster.address=auto")
    check_environment(elsewhere)  # replicas may run where the folder is


@given(st.text(alphabet="${}\\'ab {%"))
def test_texts_with_marks_of_references_are_stored_as_they_are(text):
    written = OmegaConf.create(as_written({"a": [text], "b": {"c": text}}))
    assert OmegaConf.to_container(written, resolve=True) == {"a": [text], "b": {"c": text}}
    assert given_template("{" + text) == "{" + text
