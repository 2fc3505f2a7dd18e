"""Every command and path that the README and the docs show: it is read by the real parser, planned, or runs elsewhere."""

import importlib.util
import re
import shlex
import textwrap
from pathlib import Path

import pytest

from cluster.cli import main, parser_for
from cluster.commands.play import play_overrides
from cluster.commands.serve import serve_overrides
from cluster.config.settings import load_settings
from envs.kumo.published import import_checkout
from tests.cluster.conftest import ROOT
from tests.envs.kumo_checkout import write_checkout, write_transcripts

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TUTORIALS = {"new_suite.md", "new_engine.md", "kidgym_new_task.md"}
"""Their code and commands are run by tests/test_tutorials.py and tests/envs/test_kidgym_custom_task.py."""
COMMAND = re.compile(r"^    \$? ?((?:raycade|\./launch\.sh|python -m) .*)$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")
SMALL = {
    "kumo": ["suite.domains=[medical]", "suite.tasks_per_domain=4", "suite.repeats=1"],
    "kumo_likely": ["suite.domains=[medical]", "suite.tasks_per_domain=4"],
    "kidgym": ["suite.episodes=1"],
    "multistar": ["suite.puzzles=1"],
}
"""Planning every documented run at full size would take minutes; the documented overrides are read all the same."""
TEMPLATE = """\
{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def commands() -> list[tuple[str, str]]:
    """Each command once, with the last page that shows it."""
    found: dict[str, str] = {}
    for page in PAGES:
        if page.name not in TUTORIALS:
            text = re.sub(r"\\\n\s*", " ", page.read_text())
            found |= {re.sub(r"\s{2,}#.*$| # .*$", "", line): page.name for line in COMMAND.findall(text)}
    return [(page, line) for line, page in found.items()]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "line"), commands(), ids=lambda value: value[:60])
def test_a_documented_command_is_one_that_there_is(page, line, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")
    words = [word for word in shlex.split(line) if word != "..."]
    if words[0] == "python":
        module = words[2]
        assert module != "pip", (
            "looking for pip makes setuptools refuse to be imported in this process: write .venv/bin/pip"
        )
        assert importlib.util.find_spec(module), f"{page}: there is no module {module}"
        return
    words = launched(words) if words[0] == "./launch.sh" else words[1:]
    if words is None:
        return
    options = parser_for(words[0]).parse_args(words)
    if any(word.startswith("suite.source=") for word in words):  # the page imports the user's checkout before
        monkeypatch.chdir(tmp_path)
        write_checkout(tmp_path / "CHECKOUT")
        write_transcripts(tmp_path / "CHECKOUT", "qwen2.5-7b-instruct", "PondEnv", {1: [["Fox"]] * 5})
        import_checkout(tmp_path / "CHECKOUT", tmp_path / "kumo-published", lambda *_: None)
    for word in words:
        if word.startswith("model.engine.chat_template="):  # a file of the user's
            monkeypatch.chdir(tmp_path)
            Path(word.partition("=")[2]).write_text(TEMPLATE)
    if words[0] in ("run", "plan") and not getattr(options, "multirun", False):
        overrides = [word for word in options.overrides if not word.startswith(("run_dir=", "cluster.address="))]
        suite = next((word.partition("=")[2] for word in overrides if word.startswith("suite=")), "demo")
        given = {word.partition("=")[0] for word in overrides}
        small = [each for each in SMALL.get(suite, []) if each.partition("=")[0] not in given]
        assert load_settings([*overrides, *small, f"run_dir={tmp_path / 'run'}"]).plan

    if words[0] in ("play", "serve"):
        asked = words[0] == "play"
        overrides = (
            play_overrides(options.overrides, options.participant) if asked else serve_overrides(options.overrides)
        )
        assert load_settings([*overrides, f"run_dir={tmp_path / 'run'}"]).plan


def launched(words: list[str]) -> list[str] | None:
    """What launch.sh makes of its words; None for what is no command of raycade's."""
    rest = words[1:]
    if rest[:1] == ["slurm"] and "--" in rest and "[hydra" not in rest:  # planned before it is submitted, as here
        return ["plan", *rest[rest.index("--") + 1 :]]
    if not rest or rest[0] in ("test", "setup", "slurm"):
        for path in rest[1:]:
            assert not path.startswith("tests/") or (ROOT / path).exists(), f"there is no {path}"
        return None
    return ["run", *rest] if "=" in rest[0] else rest


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_linked_file_exists(page):
    for link in LINK.findall(page.read_text()):
        assert (page.parent / link).exists(), f"{page.name} links to {link}, which is not there"


def test_paths_in_the_readme_exist():
    for path in re.findall(r"`((?:cluster|evals|envs|conf|docs|tests)/[\w/.-]+)`", (ROOT / "README.md").read_text()):
        assert Path(ROOT / path).exists(), path


@pytest.mark.slow
def test_the_documented_python_runs(tmp_path, monkeypatch, capsys):
    text = (ROOT / "README.md").read_text() + (ROOT / "docs" / "looking.md").read_text()
    blocks = [
        textwrap.dedent(block) for block in re.findall(r"(?:^ {4,}(?:from|import) .*\n(?:^ {4,}\S.*\n)+)", text, re.M)
    ]
    assert len(blocks) == 2
    small = ["suite=kidgym", "suite.tasks=[SE]", "suite.levels=[1]", "suite.modes=[zero_shot]", "suite.episodes=2"]
    monkeypatch.chdir(tmp_path)
    for name in ("kumo-tiny-3fa9c1d2", "my-run"):
        with pytest.raises(SystemExit) as end:
            main(["run", *small, "model=oracle", f"run_dir=runs/{name}"])
        assert end.value.code == 0
    capsys.readouterr()
    for block in blocks:
        exec(compile(block, "page.md", "exec"), {})
    assert "(576, 576, 3)" in capsys.readouterr().out
