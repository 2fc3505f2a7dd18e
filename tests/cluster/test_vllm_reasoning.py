"""How replies are separated from their reasoning, and its tokens counted, without an engine."""

import pytest

from cluster.engines.vllm_reasoning import Reasoning, thinks
from evals.replies.reasoning import THINKING_MARKS
from evals.types import Reply

WORDS = {"<think>": 1, "</think>": 2, "hm": 3, "well": 4, "red": 5, "end": 6}


class Tokens:
    """Every word is a token."""

    def encode(self, text):
        return [WORDS[word] for word in text.split()]


@pytest.fixture
def reasoning(monkeypatch):
    monkeypatch.setattr("cluster.engines.vllm_reasoning._ENDS", ("</think>",))
    return Reasoning(None, Tokens(), None, {})


@pytest.mark.parametrize(
    ("said", "opened", "text", "thought", "tokens"),
    [
        ("red", False, "red", "", 0),
        ("<think> hm </think> red", False, "red", "hm", 3),
        ("hm well </think> red", True, "red", "hm well", 3),
        ("hm </think> well </think> red", True, "red", "hm </think> well", 4),
        ("hm well", True, "", "hm well", 2),
        ("<think> hm", False, "", "hm", 2),
        ("hm well", False, "hm well", "", 0),
    ],
)
def test_tags_and_an_open_prompt_tell_the_reasoning(reasoning, said, opened, text, thought, tokens):
    mark = "<think>" if opened else ""
    reply = reasoning.separate(Reply(said, completion_tokens=9), Tokens().encode(said), mark)
    assert (reply.text, reply.reasoning, reply.reasoning_tokens) == (text, thought, tokens)
    assert reply.completion_tokens == 9


class Parser:
    """As vLLM's: the first end counts."""

    reasoning_end_str = "</think>"

    def __init__(self, tokenizer, chat_template_kwargs):
        self.kwargs = chat_template_kwargs

    def adjust_request(self, request):
        return type("Request", (), {"skip_special_tokens": False})()

    def extract_reasoning(self, text, request):
        thought, end, answer = text.partition("</think>")
        return (thought, answer or None) if end else (text, None)


@pytest.mark.parametrize(
    ("said", "text", "thought", "tokens"),
    [
        ("hm </think> red </think> end", "red </think> end", "hm", 2),
        ("hm well", "", "hm well", 2),
        ("hm </think>", "", "hm", 2),
    ],
)
def test_a_parser_of_vllm_tells_the_reasoning(monkeypatch, said, text, thought, tokens):
    monkeypatch.setattr("cluster.engines.vllm_reasoning._parser_class", lambda name: Parser)
    monkeypatch.setattr("cluster.engines.vllm_reasoning._empty_request", lambda: None)
    reasoning = Reasoning(None, Tokens(), "parser", {"enable_thinking": True})
    assert reasoning.parsed and not reasoning.skip_special_tokens
    reply = reasoning.separate(Reply(said), Tokens().encode(said), "<think>")
    assert (reply.text, reply.reasoning, reply.reasoning_tokens) == (text, thought, tokens)


def test_only_the_end_of_a_prompt_opens_a_thought(reasoning):
    assert reasoning.opened("user: hm\nassistant: <think>\n") and reasoning.opened("<thinking>")
    assert not reasoning.opened("assistant: <think>\n\n</think>\n\n") and not reasoning.opened("say <think> first")


def test_a_parser_tells_that_a_model_thinks_unless_it_is_switched_off():
    assert thinks("qwen3", {}) and thinks("qwen3", {"enable_thinking": True})
    assert not thinks(None, {}) and not thinks("qwen3", {"enable_thinking": False})
    assert not thinks("deepseek_v3", {"thinking": False})


class Characters:
    """Every character is a token."""

    def encode(self, text):
        return list(map(ord, text))


@pytest.mark.parametrize("marks", [marks for marks in THINKING_MARKS if not marks[0].isalpha()], ids=str)
def test_all_known_marks_may_be_opened_by_a_template(marks):
    opening, closing = marks
    reasoning = Reasoning(None, Characters(), None, {})
    opened = reasoning.opened(f"user: hm\nassistant: {opening}\n")
    said = f"hm{closing}red"
    reply = reasoning.separate(Reply(said), Characters().encode(said), opened)
    assert (reply.text, reply.reasoning, reply.reasoning_tokens) == ("red", "hm", len(said) - 3)
    cut = reasoning.separate(Reply("hm"), Characters().encode("hm"), opened)
    assert (cut.text, cut.reasoning) == ("", "hm")


def test_marks_that_are_special_tokens_stay_in_the_text():
    tokenizer = type("Tokenizer", (), {"all_special_tokens": ["<s>", "[THINK]", "[/THINK]"]})()
    assert not Reasoning(tokenizer, Characters(), None, {}).skip_special_tokens
    assert Reasoning(None, Characters(), None, {}).skip_special_tokens


def test_a_parser_that_only_finds_boundaries_leaves_the_separation_to_the_marks(monkeypatch):
    class Boundary(Parser):
        reasoning_end_str = None

        def adjust_request(self, request):
            return type("Request", (), {"skip_special_tokens": True})()

        def extract_reasoning(self, text, request):
            raise NotImplementedError

    monkeypatch.setattr("cluster.engines.vllm_reasoning._parser_class", lambda name: Boundary)
    monkeypatch.setattr("cluster.engines.vllm_reasoning._empty_request", lambda: None)
    reasoning = Reasoning(None, Characters(), "openai_gptoss", {})
    assert reasoning.parsed and not reasoning.skip_special_tokens
    said = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>red<|return|>"
    reply = reasoning.separate(Reply(said), Characters().encode(said), "")
    assert (reply.text, reply.reasoning) == ("red", "hm")
