"""From chats to what vLLM's engine takes: the model's chat template, tokens, pictures as tensors, label tokens."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from PIL import Image

from cluster.engines.base import EngineError
from cluster.engines.chat_tokens import ChatTokens, is_tekken
from cluster.engines.prompt_check import (
    Arrangement,
    SystemRole,
    WrongPromptError,
    arranged,
    arrangements,
    check_prompt,
    choose_arrangement,
)
from cluster.engines.template_files import (
    KEPT,
    PROMPT_DATE,
    TemplateError,
    check_arguments,
    check_own_rendering,
    keeping_arguments,
    marks_in,
)
from envs.picture import Picture
from evals.chat_json import data_url
from evals.types import Chat, Message, PlayerError, PromptTooLong

logger = logging.getLogger(__name__)

MOST_LABELS = 128
"""Labels that vLLM scores in one request."""
CHOICE_LABELS = (*"ABCD", *"12345678")
"""Labels that suites use for choices; checked when the engine starts."""
PICTURES = 256
"""Cached rendered pictures; one of 576 x 576 pixels takes a megabyte."""


class VLLMChat:
    """Makes prompts for one engine; repeated text is tokenized once and repeated pictures are rendered once."""

    def __init__(
        self,
        model: str,
        renderer: Any,
        tokens: ChatTokens,
        multimodal: bool,
        arguments: Mapping[str, Any],
        template: str | None = None,
    ) -> None:
        """Wrap vLLM's own renderer.

        Args:
            model: The model's name, for messages.
            renderer: vLLM's.
            tokens: The model's tokenizer.
            multimodal: Whether the model reads pictures.
            arguments: Further ones of the chat template, such as a thinking switch.
            template: The chat template; the model's own by default.
        """
        self.model, self.multimodal = model, multimodal
        self._renderer, self._tokens = renderer, tokens
        fixed = {"add_generation_prompt": True, "tokenize": False, "strftime_now": PROMPT_DATE.strftime}
        self._given, self._template_text = dict(arguments), template
        self._template_arguments = {**arguments, **fixed}
        self._tekken = is_tekken(getattr(renderer, "tokenizer", None))
        self._render = lru_cache(maxsize=PICTURES)(data_url if self._tekken else _image)
        self._arrangement = Arrangement()
        self._marks = marks_in(None)
        self._keeping: dict[str, bool] = {}
        self._picture_mark: re.Pattern[str] | None = None

    def arrange(self, system_role: SystemRole, pictures: int, keeps_reasoning: bool = False) -> Arrangement:
        """Find out how this model's template takes a chat as it is meant.

        Args:
            system_role: See ``prompt_check``.
            pictures: How many may stand in one prompt.
            keeps_reasoning: Whether prompts hold what was thought in earlier turns.

        Raises:
            EngineError: in no way, or it lacks a variable of the arguments; the message says what the template does.
        """
        own = self._own_template()
        try:
            if self._tekken:
                check_own_rendering(self._template_text, self._given, self._renderer.get_tokenizer().version)
                # It warns of each text that could be tokenized otherwise; ``check_ids`` makes sure that ours is not.
                logging.getLogger("transformers.tokenization_mistral_common").setLevel(logging.ERROR)
            if own is not None:
                check_arguments(own, self._given)
                self._keeping = keeping_arguments(own)
        except TemplateError as error:
            raise EngineError(str(error)) from error
        self._marks = marks_in(own)
        tried = list(arrangements(system_role, self.multimodal, keeps_reasoning))
        try:
            self._arrangement, self._picture_mark = choose_arrangement(
                lambda chat, arrangement: str(self._template(chat, arrangement)["prompt"]),
                pictures if self.multimodal else 0,
                tried,
                self._marks,
            )
        except WrongPromptError as error:
            kept = KEPT if keeps_reasoning else ""
            raise EngineError(
                f"the chat template of {self.model} does not pass chats on as they are{kept}: {error}. "
                "Give another one with model.engine.chat_template"
            ) from error
        if self._arrangement != tried[0]:
            logger.warning("the chat template of %s needs %s", self.model, self._arrangement)
        return self._arrangement

    def _own_template(self) -> str | None:
        """The text of the template in use; None where the tokenizer renders chats without one."""
        from vllm.renderers import hf

        if not isinstance(self._renderer, hf.HfRenderer):
            return None
        config = self._renderer.model_config
        tokenizer = self._renderer.get_tokenizer()
        text: str | None = hf.resolve_chat_template(tokenizer, self._template_text, None, model_config=config)
        return text

    def rendered(self, chat: Chat) -> dict[str, Any]:
        """The chat in the model's own format: ``prompt`` (text), pictures and their ids.

        Raises:
            PlayerError: the model cannot read it.
        """
        holds_picture = any(isinstance(part, Picture) for said in chat for part in said.parts)
        if holds_picture and not self.multimodal:
            raise PlayerError(f"{self.model} reads text only, but the prompt contains a picture")
        chat = arranged(chat, self._arrangement, self._marks)
        rendered = self._template(chat, self._arrangement)
        try:
            check_prompt(chat, rendered["prompt"], self._picture_mark)
        except WrongPromptError as error:
            raise PlayerError(
                f"the chat template of {self.model} does not pass this chat on as it is: {error}"
            ) from error
        return rendered

    def _template(self, chat: Chat, arrangement: Arrangement) -> dict[str, Any]:
        """A chat as the chat template formats it.

        Raises:
            PlayerError: the template rejects it.
        """
        from vllm.renderers import ChatParams

        messages = [self._message(said) for said in chat]
        config = self._renderer.model_config.multimodal_config
        if config is not None:
            config.interleave_mm_strings = arrangement.interleaved
        settings = ChatParams(
            chat_template=self._template_text,
            chat_template_content_format=arrangement.content_format,
            chat_template_kwargs={
                **(self._keeping if arrangement.reasoning == "field" else {}),
                **self._template_arguments,
            },
        )
        try:
            rendered: dict[str, Any] = self._renderer.render_messages(messages, settings)[1]
        except Exception as error:
            # Templates and picture limits reject a chat with arbitrary exceptions; none of them harms the engine.
            raise PlayerError(f"{self.model} cannot read this chat: {brief(error)}") from error
        return rendered

    async def engine_input(self, rendered: Mapping[str, Any]) -> dict[str, Any]:
        """Token ids with every picture's placeholder expanded, and the pictures as the model's tensors.

        Raises:
            PlayerError: the model's processor rejects them.
        """
        prompt = {**rendered, "prompt_token_ids": self._tokens.encode(rendered["prompt"])}
        del prompt["prompt"]
        try:
            ready: dict[str, Any] = await self._renderer.process_for_engine_async(prompt, time.time())
        except Exception as error:
            raise PlayerError(f"{self.model} cannot read this chat: {brief(error)}") from error
        return ready

    def label_tokens(self, text: str, labels: Sequence[str]) -> list[int]:
        """The token of each label, as it would follow ``text``.

        Raises:
            PlayerError: a label is not a single token, or there are too many.
        """
        if len(labels) > MOST_LABELS:
            raise PlayerError(f"{len(labels)} labels in one turn; vLLM scores {MOST_LABELS} at most")
        found = [(label, self._tokens.label_token(text, label)) for label in labels]
        split = [label for label, token in found if token is None]
        if split:
            raise PlayerError(self._split_labels(split))
        return [token for _, token in found if token is not None]

    def check_ids(self, chat: Chat) -> None:
        """Compare the ids of a chat with those of a tokenizer that renders chats itself.

        Raises:
            EngineError: they differ.
        """
        if not self._tekken:
            return
        messages = [self._message(said) for said in chat]
        own = self._renderer.get_tokenizer().apply_chat_template(messages, **self._given)
        if list(own) != self._tokens.encode(self.rendered(chat)["prompt"]):
            raise EngineError(f"the tokenizer of {self.model} encodes a chat otherwise than the text that it renders")

    def check_choices(self, text: str) -> None:
        """Warn at startup about usual labels that cannot be scored, instead of late in a chain of questions."""
        split = [label for label in CHOICE_LABELS if self._tokens.label_token(text, label) is None]
        if split:
            logger.warning("%s; turns that ask for their scores will fail", self._split_labels(split))

    def _message(self, said: Message) -> dict[str, Any]:
        parts = [self._part(part) for part in said.parts]
        if self._tekken and not isinstance(said.parts[-1], str):
            # Mistral's own tokenizer moves a picture at the end before the words, unless a line break follows it.
            parts.append(self._part("\n"))
        message: dict[str, Any] = {"role": said.role, "content": parts}
        if said.reasoning:  # vLLM also gives it to the template as ``reasoning_content``
            message["reasoning"] = said.reasoning
        return message

    def _part(self, part: str | Picture) -> dict[str, Any]:
        if isinstance(part, str):
            return {"type": "text", "text": part}
        try:
            shown = self._render(part)
        except Exception as error:
            cause = f"a picture cannot be rendered: {brief(error)}: {part.description[:200]}"
            raise PlayerError(cause, kind="suite") from error
        if isinstance(shown, str):
            return {"type": "image_url", "image_url": {"url": shown}, "uuid": part.key}
        return {"type": "image_pil", "image_pil": shown, "uuid": part.key}

    def _split_labels(self, labels: Sequence[str]) -> str:
        names = ", ".join(map(repr, labels))
        what = f"label {names} is not a single token" if len(labels) == 1 else f"labels {names} are not single tokens"
        return f"the {what} of {self.model} after its chat template"


def room_for_reply(length: int, max_model_len: int, max_tokens: int) -> int:
    """Tokens that a prompt of ``length`` tokens leaves.

    Raises:
        PromptTooLong: none.
    """
    if length >= max_model_len:
        raise PromptTooLong(
            f"the prompt has {length} tokens, pictures included; with max_model_len={max_model_len} "
            f"leaves no room for a reply (max_tokens={max_tokens})"
        )
    return max_model_len - length


def brief(error: BaseException) -> str:
    """An error's message on one line, shortened."""
    message = " ".join(str(error).split()) or type(error).__name__
    return message if len(message) <= 400 else f"{message[:400]} ..."


def _image(picture: Picture) -> Image.Image:
    return Image.fromarray(picture.render())
