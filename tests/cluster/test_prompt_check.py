"""Chats through chat templates that do not pass them on as they are: put right by a known switch, or refused; never silent."""

import re

import pytest

from cluster.engines.base import EngineError
from cluster.engines.prompt_check import (
    BlankPicture,
    WrongPromptError,
    check_prompt,
)
from cluster.engines.tiny_model import ensure_tiny_model
from cluster.engines.vllm_chat import VLLMChat
from cluster.engines.vllm_process import prepare_environment
from evals.types import Message, PlayerError, message

IMAGE = "<i>"


def test_equal_words_in_several_messages_are_no_mistake():
    chat = (message("user", "A"), message("assistant", "A"), message("user", BlankPicture(), "A", BlankPicture()))
    check_prompt(chat, f"Answers: A [A] A {IMAGE} A {IMAGE}", re.compile(IMAGE))
    with pytest.raises(WrongPromptError, match="picture is missing"):
        check_prompt(chat, f"Answers: A [A] A {IMAGE} A", re.compile(IMAGE))
    for lost in ("A", "[A] B", "B A"):
        with pytest.raises(WrongPromptError, match="'A' is missing"):
            check_prompt(chat[:2], lost, None)


# --- with vLLM's own renderer ----------------------------------------------------------------------------------------

PARTS = """{%- for m in messages %}[{{ m.role }}]{%- for p in m.content %}{%- if p.type == 'image' -%}
<|vision_start|><|image_pad|><|vision_end|>{%- else %}{{ p.text }}{%- endif %}{%- endfor %}{%- endfor %}[assistant]"""
TEXT = "{%- for m in messages %}[{{ m.role }}]{{ m['content'] }}{%- endfor %}[assistant]"
NO_SYSTEM = "{%- if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{%- endif %}"
LISTED = (
    "{%- if messages[0].role == 'system' %}[system]{{ messages[0]['content'] | trim }}"
    "{%- set messages = messages[1:] %}{%- endif %}" + PARTS
)
DATED = "Today is {{ strftime_now('%d %b %Y') }}. " + PARTS
# Ministral 3's template sorts the parts of a message that has two of them.
SORTS = """{%- for m in messages %}[{{ m.role }}]{%- if m.content is string %}{{ m.content }}{%- else %}
{%- set parts = m.content | sort(attribute='type') if m.content | length == 2 else m.content %}
{%- for p in parts %}{%- if p.type == 'image' -%}
<|vision_start|><|image_pad|><|vision_end|>{%- else %}{{ p.text }}{%- endif %}{%- endfor %}{%- endif %}
{%- endfor %}[assistant]"""
PICTURES_FIRST = """{%- for m in messages %}[{{ m.role }}]{%- for p in m.content if p.type == 'image' %}<|image_pad|>
{%- endfor %}
{%- for p in m.content if p.type == 'text' %}{{ p.text }}{%- endfor %}{%- endfor %}"""
DROPS = "{%- for m in messages if m.role != 'system' %}[{{ m.role }}]{{ m['content'] }}{%- endfor %}"
DROPS_ALL_BUT_THE_LAST = "[user]{{ messages[-1]['content'] }}"


@pytest.fixture(scope="module")
def renderer():
    prepare_environment(local=True)
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.renderers import renderer_from_config

    arguments = AsyncEngineArgs(
        model=str(ensure_tiny_model()), limit_mm_per_prompt={"image": 8}, enforce_eager=True, max_model_len=1024
    )
    return renderer_from_config(arguments.create_engine_config())


def chat_through(renderer, template, monkeypatch, system_role="auto"):
    """A chat whose template is another one, prepared as at the start of an engine."""
    tokenizer = renderer.get_tokenizer()
    monkeypatch.setattr("vllm.renderers.hf._try_get_processor_chat_template", lambda *_, **__: None)
    monkeypatch.setattr(tokenizer, "chat_template", template)
    monkeypatch.setattr("vllm.renderers.hf._CONTENT_FORMATS", {})  # vLLM remembers the form by the model's name
    chat = VLLMChat("the model", renderer, None, True, {})
    chat.arrange(system_role, 8)
    return chat


GAME = (
    message("system", "The rules.\nRead them."),
    message("user", "Step 1:", BlankPicture(), "Step 2:", BlankPicture(), "Choose."),
)


@pytest.mark.vllm
@pytest.mark.parametrize(
    ("template", "start"),
    [
        (PARTS, "[system]The rules."),
        (TEXT, "[system]The rules."),
        (NO_SYSTEM + PARTS, "[user]The rules."),
        (NO_SYSTEM + TEXT, "[user]The rules."),
        (LISTED, "[user]The rules."),
        (DROPS, "[user]The rules."),
        (DATED, "Today is 01 Jan 2026.[system]The rules."),
        (SORTS, "[system]The rules."),
    ],
    ids=[
        "parts",
        "text: pictures first",
        "no system role",
        "both",
        "system as a list",
        "dropped",
        "date",
        "two sorted",
    ],
)
def test_a_template_that_would_change_the_chat_is_put_right(renderer, monkeypatch, template, start):
    chat = chat_through(renderer, template, monkeypatch)
    prompt = chat.rendered(GAME)["prompt"]
    assert prompt.startswith(start)
    places = [prompt.index(word) for word in ("Read them.", "Step 1:", "Step 2:", "Choose.")]
    pictures = [place for place in range(len(prompt)) if prompt.startswith("<|image_pad|>", place)]
    assert len(pictures) == 2 and places[1] < pictures[0] < places[2] < pictures[1] < places[3]
    for parts in (("Look here:", BlankPicture()), (BlankPicture(), "Look here:")):
        short = chat.rendered((message("user", *parts),))["prompt"]
        assert (short.index("Look here:") < short.index("<|image_pad|>")) == isinstance(parts[0], str)


@pytest.mark.vllm
@pytest.mark.parametrize(
    ("template", "named"),
    [
        (DROPS_ALL_BUT_THE_LAST, "is missing"),
        (TEXT + "{{ messages[-1]['content'] }}", ""),
        ("{{ raise_exception('nothing pleases me') }}", "nothing pleases me"),
        (PICTURES_FIRST, "pictures are moved away"),
        (PARTS.replace("<|image_pad|>", "<|image_pad|><|vision_end|><|vision_start|><|image_pad|>"), "more than once"),
    ],
    ids=["words dropped", "words twice", "refuses everything", "pictures first", "a picture twice"],
)
def test_a_template_that_nothing_puts_right_is_refused_with_the_reason(renderer, monkeypatch, template, named):
    with pytest.raises(EngineError, match=rf"chat template of the model.*{named}"):
        chat_through(renderer, template, monkeypatch)


@pytest.mark.vllm
def test_a_chat_that_loses_words_later_fails_alone(renderer, monkeypatch):
    cut = (
        "{%- for m in messages %}[{{ m.role }}]{%- for p in m.content %}{{ p.text.split('</think>')[-1] }}{%- endfor %}"
    )
    chat = VLLMChat("the model", renderer, None, False, {})
    monkeypatch.setattr("vllm.renderers.hf._try_get_processor_chat_template", lambda *_, **__: None)
    monkeypatch.setattr(renderer.get_tokenizer(), "chat_template", cut + "{%- endfor %}")
    chat.arrange("auto", 0)
    assert "whole" in chat.rendered((message("user", "whole"),))["prompt"]
    with pytest.raises(PlayerError, match="'first</think>second' is missing"):
        chat.rendered((message("user", "first</think>second"),))


@pytest.mark.vllm
def test_vllm_gives_the_template_the_reasoning_and_the_switch_that_keeps_it(renderer, monkeypatch):
    keeping = "{%- if preserve_thinking and m.reasoning_content %}<r>{{ m.reasoning_content }}</r>{%- endif %}"
    monkeypatch.setattr("vllm.renderers.hf._try_get_processor_chat_template", lambda *_, **__: None)
    monkeypatch.setattr("vllm.renderers.hf._CONTENT_FORMATS", {})
    template = PARTS.replace("[{{ m.role }}]", f"[{{{{ m.role }}}}]{keeping}")
    game = (*GAME, Message("assistant", ("B",), "It is behind the door."), message("user", "Step 3:", BlankPicture()))
    said = []
    for keeps in (False, True):
        chat = VLLMChat("the model", renderer, None, True, {}, template)
        chat.arrange("auto", 8, keeps_reasoning=keeps)
        said.append(chat.rendered(game)["prompt"].partition("[assistant]")[2][:40])
    assert said == ["B[user]Step 3:<|vision_start|><|image_pa", "<r>It is behind the door.</r>B[user]Step"]


@pytest.mark.vllm
def test_an_argument_that_the_template_does_not_know_is_refused_when_the_engine_starts(renderer):
    with pytest.raises(EngineError, match=r"no variable enable_thinkin\."):
        VLLMChat("the model", renderer, None, True, {"enable_thinkin": False}, PARTS).arrange("auto", 8)
