"""What a plan knows of a chat template on this machine: its variables, whether it passes chats on, where replies begin."""

import contextlib
import json
import os
from types import SimpleNamespace

import pytest

from cluster.cli import main
from cluster.config.settings import load_settings
from cluster.engines import template_files
from cluster.engines.prompt_check import Arrangement, arranged, arrangements, choose_arrangement
from cluster.engines.template_files import (
    OPENING,
    StoredTemplate,
    TemplateError,
    check_arguments,
    check_own_rendering,
    check_template,
    find_template,
    marks_in,
    opening_of_reply,
    variables_of,
)
from cluster.engines.vllm import VLLMEngine
from cluster.engines.vllm_process import BATCH_INVARIANT, prepare_environment
from cluster.engines.vllm_reasoning import thinks
from cluster.errors import UserError
from evals.types import Message, message
from tests.cluster.conftest import EASY
from tests.envs.test_files import little_memory as little_memory  # a fixture

WHOLE = """{{ bos_token }}{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}
{%- for p in m.content %}{% if p.type == 'image' %}<i>{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}{% endfor %}
{%- if enable_thinking %}<think>{% endif %}"""
OF_LAST = "{{ messages[-1]['content'] }}"
IMAGES_FIRST = """{% for m in messages %}{% for p in m.content if p.type == 'image' %}<i>{% endfor %}
{%- for p in m.content if p.type == 'text' %}{{ p.text }}{% endfor %}{% endfor %}"""


def model(folder, template, **settings):
    """The settings of an engine whose model is a folder with this template."""
    (folder / "chat_template.jinja").write_text(template)
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": {"content": "<s>"}, "chat_template": "old"}))
    return {"model": str(folder), "limit_mm_per_prompt": {"image": 8}, **settings}


def test_a_template_is_found_where_vllm_looks_for_it(tmp_path):
    settings = model(tmp_path, WHOLE)
    assert find_template(settings).text == WHOLE and find_template(settings).values["bos_token"] == "<s>"
    (tmp_path / "chat_template.jinja").unlink()
    assert find_template(settings).text == "old"
    several = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "words"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": several}))
    assert find_template(settings).text == "words"
    assert find_template({**settings, "chat_template": "{{ given }}"}).text == "{{ given }}"
    assert find_template({**settings, "vllm": {"tokenizer_mode": "mistral"}}) is None
    assert find_template({"model": "nobody/has-this-model"}) is None
    with pytest.raises(TemplateError, match=r"none\.jinja: cannot be read"):
        find_template({**settings, "chat_template": str(tmp_path / "none.jinja")})


def test_what_a_tokenizer_that_renders_chats_itself_would_ignore_is_refused(tmp_path):
    own = model(tmp_path, OF_LAST)  # which is not used, so not tried
    (tmp_path / "consolidated.safetensors").touch()
    with pytest.raises(TemplateError, match="probe"):
        check_template(own)
    (tmp_path / "tekken.json").touch()
    assert find_template(own) is None
    check_template({**own, "chat_template_kwargs": {"reasoning_effort": "none"}})
    with pytest.raises(TemplateError, match=r"chat_template_kwargs\.enable_thinking: .* knows reasoning_effort"):
        check_template({**own, "chat_template_kwargs": {"enable_thinking": False}})
    with pytest.raises(TemplateError, match=r"reasoning_effort: .* knows none"):
        check_own_rendering(None, {"reasoning_effort": "high"}, version=13)
    with pytest.raises(TemplateError, match=r"model\.engine\.chat_template: "):
        check_template({**own, "chat_template": WHOLE})
    with pytest.raises(TemplateError, match="probe"):
        check_template({**own, "vllm": {"tokenizer_mode": "hf"}})


@pytest.mark.parametrize(
    ("template", "pictures", "wrong"),
    [
        (WHOLE, 8, ""),
        (OF_LAST, 0, "First probe, line one.* is missing"),
        (IMAGES_FIRST, 8, "pictures are moved away"),
        (IMAGES_FIRST, 0, ""),
        ("{% for m in messages %}", 0, "line 1: "),
        ("{{ raise_exception('never') }}", 0, "never"),
        ("{{ messages.__class__.__mro__ }}", 0, "__class__"),
    ],
)
def test_a_template_that_nothing_puts_right_is_refused_when_planning(tmp_path, template, pictures, wrong):
    settings = model(tmp_path, template, limit_mm_per_prompt={"image": pictures})
    if not wrong:
        check_template(settings)
        return
    with pytest.raises(TemplateError, match=wrong):
        check_template(settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("template", "excess"),
    [
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "5 seconds"),
        ("{{ ('a' * 10000000000) | length }}", "512 MiB of memory"),
    ],
)
def test_a_template_without_bounds_is_refused(tmp_path, template, excess):
    settings = model(tmp_path, template)
    assert opening_of_reply(settings) == ""
    with pytest.raises(TemplateError, match=f"takes more than {excess}"):
        check_template(settings)


def test_an_argument_of_the_settings_comes_before_the_one_that_keeps_thoughts():
    kept = Arrangement(reasoning="field")
    for values, said in (({}, "True"), ({"preserve_thinking": False}, "False")):
        assert StoredTemplate("{{ preserve_thinking }}", values).render((message("user", "Hi"),), kept) == said


def test_constants_of_a_template_are_not_computed_before_it_is_rendered(little_memory):
    """Jinja computes them when it looks for variables, also where nothing is ever rendered."""
    large = "{% if no %}{{ ('a' * 1000000000) | length }}{{ 'a' | center(1000000000) }}{% endif %}{{ x }}"
    assert variables_of(large) == {"no", "x"}
    assert StoredTemplate(large, {"x": "end"}).render(OPENING) == "end"


def test_a_models_files_made_to_harm_are_left_or_refused(tmp_path):
    settings = model(tmp_path, "{" * 1_000_000)
    with pytest.raises(TemplateError, match="nested too deeply"):
        check_template(settings)
    (tmp_path / "chat_template.jinja").unlink()
    os.mkfifo(tmp_path / "chat_template.jinja")
    for content in ("[" * 100_000, json.dumps({"chat_template": [1, None, {"template": 5}]})):
        (tmp_path / "tokenizer_config.json").write_text(content)
        assert find_template(settings) is None


def test_arguments_are_variables_of_the_template():
    check_arguments(WHOLE, {"enable_thinking": False})
    with pytest.raises(TemplateError, match=r"no variable enable_thinkin\. Did you mean enable_thinking\?"):
        check_arguments(WHOLE, {"enable_thinkin": False})
    assert variables_of("{% set a = b %}{{ a }}{% generation %}{{ c }}{% endgeneration %}") == {"b", "c"}


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_misspelled_argument_is_refused_before_anything_starts(command, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([command, *EASY, "model=tiny", "model.chat_template_kwargs={enable_thinkin: true}"])
    assert "has no variable enable_thinkin. Did you mean enable_thinking?" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_labels_are_refused_only_where_the_next_token_is_no_answer(tmp_path):
    channel = WHOLE + "<|start|>assistant"
    can = []
    for template, thinking in ((WHOLE, True), (WHOLE, False), (channel, False)):
        settings = model(tmp_path, template, chat_template_kwargs={"enable_thinking": thinking})
        can.append(VLLMEngine.capabilities(settings).label_scores)
    assert can == [False, True, False]


@pytest.mark.parametrize("parser", ["deepseek_v3", "gemma4"])
def test_some_parsers_models_think_only_when_told_to(parser):
    assert not thinks(parser, {}) and not thinks(parser, {"enable_thinking": False})
    assert thinks(parser, {"enable_thinking": True}) and thinks(parser, {"thinking": True})


THINKS = """{% for m in messages %}[{{ m.role }}]{% if m.reasoning_content and KEEP %}<r>{{ m.reasoning_content }}</r>
{%- endif %}{{ m.content }}{% endfor %}"""
CUTS = "{% for m in messages %}[{{ m.role }}]{{ m.content.split('</think>')[-1] }}{% endfor %}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("template", "said"),
    [
        (THINKS.replace("KEEP", "preserve_thinking"), "[assistant]<r>Hm.</r>red"),
        (THINKS.replace("KEEP", "not (clear_thinking | default(true))"), "[assistant]<r>Hm.</r>red"),
        (THINKS.replace("KEEP", "true"), "[assistant]<r>Hm.</r>red"),
        (THINKS.replace("KEEP", "false"), "[assistant]<think>\nHm.\n</think>\n\nred"),
        (THINKS.replace("KEEP", "false") + "{# [/THINK] #}", "[assistant][THINK]\nHm.\n[/THINK]\n\nred"),
        (CUTS, ""),
    ],
    ids=["switch on", "switch off", "always", "as text", "its own marks", "never"],
)
def test_reasoning_of_earlier_turns_is_kept_as_the_template_allows(tmp_path, template, said):
    settings = model(tmp_path, template, limit_mm_per_prompt=None, keeps_reasoning=True)
    stored = find_template(settings)
    if not said:
        with pytest.raises(TemplateError, match=r"reasoning included .*'s thought"):
            check_template(settings)
        return
    check_template(settings)
    marks = marks_in(template)
    chosen, _ = choose_arrangement(stored.render, 0, list(arrangements("auto", False, True)), marks)
    chat = (message("user", "Which?"), Message("assistant", ("red",), "Hm."), message("user", "Sure?"))
    assert said in stored.render(arranged(chat, chosen, marks), chosen)
    dropped, _ = choose_arrangement(stored.render, 0, list(arrangements("auto", False)))
    assert "Hm." not in stored.render(arranged(chat, dropped), dropped)


@pytest.mark.slow
def test_history_and_determinism_are_part_of_the_id_only_where_they_are_set():
    plain = load_settings(["suite=kumo", "model=tiny"])
    for changed in ("history.reasoning=kept", "deterministic=true"):
        settings = load_settings(["suite=kumo", "model=tiny", changed])
        assert settings.model.fingerprint != plain.model.fingerprint
        with pytest.raises(UserError, match=rf"{changed}: model\.engine\.type=simulated takes none"):
            load_settings(["suite=kumo", "model=simulated", changed])
    with pytest.raises(UserError, match=r"history\.reasoning=lost: must be one of dropped, kept"):
        load_settings(["suite=kumo", "model=tiny", "history.reasoning=lost"])
    assert load_settings(["suite=kumo", "model=tiny", "model.system_role=user"]).model.engine["system_role"] == "user"


@pytest.mark.parametrize("deterministic", [False, True])
def test_deterministic_runs_set_vllms_variable(monkeypatch, deterministic):
    monkeypatch.setenv(BATCH_INVARIANT, "0")
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))  # which gets the folder of torch_compat
    prepare_environment(local=False, deterministic=deterministic)
    assert os.environ[BATCH_INVARIANT] == str(int(deterministic))


@pytest.mark.parametrize(
    ("ended", "said"), [(-9, r"more than \d+ seconds"), (1, r"more than \d+ MiB of memory"), (0, "")]
)
def test_a_template_is_tried_in_a_process_of_its_own_whose_end_says_what_it_exceeded(ended, said, monkeypatch):
    asked = []

    def run(command, **given):
        asked.append(json.loads(given["input"]))
        return SimpleNamespace(returncode=ended)

    text = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>{# " + f"{ended} #}}"
    monkeypatch.setattr(template_files.subprocess, "run", run)
    settings = {"type": "vllm", "model": "m", "chat_template": text, "system_role": "user", "keeps_reasoning": False}
    with pytest.raises(TemplateError, match=said) if said else contextlib.nullcontext():
        template_files.check_template(settings)
    assert (asked[0]["text"], asked[0]["asked"]) == (text, [0, "user", False])
