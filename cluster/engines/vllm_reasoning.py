"""Separates reasoning from answers in vLLM's replies: by one of vLLM's reasoning parsers, or by the tags of the text.

Chat templates of thinking models open a thought themselves, so a reply may close a tag that it never opened, or be cut off
within a thought without any tag. Only the rendered prompt tells.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from cluster.engines.base import EngineClosedError, EngineError, Request
from cluster.engines.chat_tokens import ChatTokens
from evals.replies.reasoning import THINKING_MARKS, separate_reasoning
from evals.types import Reply

# Marks that are plain words are what is left of others in a text without special tokens; prompts and tokens have those.
_MARKS = tuple(marks for marks in THINKING_MARKS if not marks[0].isalpha())
_OPENED = re.compile(rf"({'|'.join(re.escape(opening) for opening, _ in _MARKS)})\s*\Z")
"""The end of a prompt whose template opened a thought."""
_ENDS: tuple[str, ...] = tuple(closing for _, closing in _MARKS)


_NO_ANSWER = re.compile(r"<\|start\|>assistant\s*\Z")
"""The end of gpt-oss's prompts: the next token is the mark of a channel, never an answer."""
_QUIET_PARSERS = frozenset({"deepseek_v3", "gemma4", "granite", "hy_v3", "minimax_m3"})
"""Parsers of models that answer at once unless their thinking is switched on (vLLM 0.32); other parsers' models think."""


def thinks(parser: str | None, chat_template_kwargs: Mapping[str, Any]) -> bool:
    """Whether replies begin with reasoning, as far as the settings tell before the model is loaded."""
    if parser in _QUIET_PARSERS:
        switched = [chat_template_kwargs.get(name) for name in ("enable_thinking", "thinking")]
        effort = chat_template_kwargs.get("reasoning_effort", "no_think")
        return any(switched) or effort != "no_think" or chat_template_kwargs.get("thinking_mode") == "enabled"
    switch = chat_template_kwargs.get("enable_thinking", chat_template_kwargs.get("thinking", True))
    return bool(parser) and switch is not False


def answers_next(prompt: str) -> bool:
    """Whether the token after a rendered prompt can be an answer: no thought is open there, and no mark must come first."""
    return not _OPENED.search(prompt) and not _NO_ANSWER.search(prompt)


def check_thought(request: Request, prompt: str, opened: str, parsed: bool, model: str) -> None:
    """Refuse what a template that opens a thought makes meaningless.

    Args:
        request: What is asked.
        prompt: As it was rendered.
        opened: The mark with which it opens a thought, if any.
        parsed: Whether vLLM parses the reasoning: constraints then hold from its end on.
        model: Whose template it is.

    Raises:
        EngineClosedError: all requests alike would meet it.
    """
    remedy = "switch thinking off (model.chat_template_kwargs={enable_thinking: false})"
    if request.labels and not answers_next(prompt):
        why = "has the model name a channel before it answers, so the next token is no label"
        if opened:
            why = f"opens a thought, so the next token is no label: {remedy}"
        raise EngineClosedError(f"the chat template of {model} {why}")
    is_constrained = bool(request.options or request.schema)
    if is_constrained and opened and not parsed:
        raise EngineClosedError(
            f"the chat template of {model} opens a thought, which a constrained reply could not end: set "
            f"model.engine.vllm.reasoning_parser, use decoding=free, or {remedy}"
        )


class Reasoning:
    """Reads replies of one model."""

    def __init__(
        self, tokenizer: Any, tokens: ChatTokens, parser: str | None, chat_template_kwargs: Mapping[str, Any]
    ) -> None:
        """Load the parser.

        Args:
            tokenizer: The model's.
            tokens: The same tokenizer, as it encodes prompts.
            parser: One of vLLM's reasoning parsers; by default thoughts are told by their tags.
            chat_template_kwargs: Of the model; some parsers depend on its thinking switch.

        Raises:
            EngineError: there is no such parser, or the tokenizer lacks its tokens.
        """
        self._tokens = tokens
        self._parser: Any = None
        self._request: Any = None
        self._separates = False
        """Whether the parser separates replies; gpt-oss's only finds where the reasoning ends."""
        special = set(getattr(tokenizer, "all_special_tokens", ()))
        self._special = any(mark in special for marks in _MARKS for mark in marks)
        """Whether the model's marks are special tokens, as Mistral's are: the text would lack them."""
        ends = _ENDS
        if parser:
            try:
                self._parser = _parser_class(parser)(tokenizer, chat_template_kwargs=dict(chat_template_kwargs))
            except (KeyError, RuntimeError, ValueError) as error:
                raise EngineError(f"model.engine.vllm.reasoning_parser={parser}: {error.args[0]}") from error
            self._request = self._parser.adjust_request(_empty_request())
            self._separates = _separates(self._parser, self._request)
            if self._separates:
                ends = (self._parser.reasoning_end_str or _ENDS[0],)
        self._ends = [tokens.encode(end) for end in ends]

    @property
    def parsed(self) -> bool:
        """Whether one of vLLM's parsers reads the replies; constrained replies then begin after the reasoning."""
        return self._parser is not None

    @property
    def skip_special_tokens(self) -> bool:
        """Whether the text of replies may lack special tokens; some parsers look for them, as do marks in their place."""
        if self._separates:
            return bool(self._request.skip_special_tokens)
        return not self.parsed and not self._special

    def opened(self, prompt: str) -> str:
        """The mark with which the rendered prompt opened a thought; empty if it ends with none."""
        found = _OPENED.search(prompt)
        return found[1] if found else ""

    def separate(self, reply: Reply, ids: Sequence[int], opened: str) -> Reply:
        """Move the reasoning out of a reply's text, and count its tokens.

        Args:
            reply: With all that the model wrote as its text.
            ids: The same as tokens.
            opened: The mark with which the prompt had opened a thought, if any.
        """
        if self._separates:
            thought, answer = self._parser.extract_reasoning(reply.text, self._request)
            found = dataclasses.replace(reply, text=(answer or "").lstrip(), reasoning=(thought or "").strip())
        else:
            found = separate_reasoning(dataclasses.replace(reply, text=opened + reply.text))
        if not found.reasoning and found.text == reply.text.lstrip():
            return reply
        return dataclasses.replace(found, reasoning_tokens=self._count(found, list(ids)))

    def _count(self, reply: Reply, ids: list[int]) -> int:
        """Tokens of a reply up to the end of its reasoning, tags included.

        To vLLM's parsers that is the first end, to ``separate_reasoning`` the last one.
        """
        if not reply.text:
            return len(ids)
        ended = self._behind_ends(ids)
        if not ended:
            of_text = len(self._tokens.encode(reply.text))
            return max(0, len(ids) - of_text)
        return min(ended) if self._separates else max(ended)

    def _behind_ends(self, ids: list[int]) -> list[int]:
        """Each place among tokens behind which a mark has ended the reasoning."""
        found = list[int]()
        for end in self._ends:
            for place in range(len(ids) - len(end) + 1):
                behind = place + len(end)
                if ids[place:behind] == end:
                    found.append(behind)
        return found


def _separates(parser: Any, request: Any) -> bool:
    """Whether a parser can separate a reply; vLLM's for gpt-oss leaves that to another part of its server."""
    try:
        parser.extract_reasoning("", request)
    except NotImplementedError:
        return False
    return True


def _parser_class(name: str) -> Any:
    from vllm.reasoning import ReasoningParserManager

    return ReasoningParserManager.get_reasoning_parser(name)


def _empty_request() -> Any:
    """Parsers are written for vLLM's server and expect its kind of request."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    return ChatCompletionRequest(model="", messages=[])
