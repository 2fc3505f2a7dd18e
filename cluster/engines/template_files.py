"""The chat template of a model whose files are on this machine, read and tried without vLLM: what a plan can know of it.

A template is looked for as vLLM does: what the settings name, then the model's folder or its copy in the hub's cache.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
import jinja2.ext
import jinja2.meta
import jinja2.nodes
from jinja2.compiler import CodeGenerator
from jinja2.sandbox import ImmutableSandboxedEnvironment

from cluster.engines.prompt_check import (
    Arrangement,
    SystemRole,
    WrongPromptError,
    arrangements,
    choose_arrangement,
)
from cluster.engines.tiny_model import CHAT_TEMPLATE
from envs.files import FileError, parse_json, read_text
from envs.suggest import did_you_mean
from evals.replies.reasoning import THINKING_MARKS, Marks
from evals.types import Chat, Message

PROMPT_DATE = datetime.date(2026, 1, 1)
"""The day that templates name as today: a chat must not change at midnight, nor when a run is resumed. It decides answers,
so raise ``VLLMEngine.version`` with it."""
EFFORT_VERSION = 15
"""Of Mistral's format of chats, the first that knows ``reasoning_effort``."""
MOST_BYTES = 4_000_000
"""A file that is larger holds no template."""
PICTURE = "<picture>"
KEPT = ", reasoning included (history.reasoning=kept)"

CPU_SECONDS = 5
"""For all that a plan renders with a template; those of models take milliseconds."""
MORE_BYTES = 512 * 2**20
"""Of memory for the same, beyond what the process has before."""
OPENING: Chat = (Message("user", ("Choose.",)),)
"""What is rendered to see how replies begin."""

_KEEPING: Mapping[str, bool] = {
    "clear_thinking": False,  # GLM
    "drop_thinking": False,  # DeepSeek
    "keep_past_thinking": True,  # LFM
    "preserve_thinking": True,  # Qwen
    "retain_reasoning": True,
    "truncate_history_thinking": False,  # Nemotron
}
"""Variables with which templates keep the reasoning of earlier turns, with the value for that."""
_OF_VLLM = frozenset({"add_generation_prompt", "messages", "raise_exception", "strftime_now", "tools"})
"""Variables of templates that are no arguments: vLLM and raycade set them."""


class TemplateError(ValueError):
    """A chat template cannot be used as the settings say."""


@dataclass(frozen=True)
class StoredTemplate:
    """A chat template with the values that it is rendered with."""

    text: str
    values: Mapping[str, Any]
    """Special tokens, and the arguments of the settings."""

    def render(self, chat: Chat, arrangement: Arrangement | None = None) -> str:
        """The prompt of a chat, pictures as the template writes them.

        Raises:
            jinja2.TemplateError: the template is none, or rejects the chat.
            Exception: whatever its expressions raise.
        """
        as_list = arrangement is None or arrangement.content_format == "auto"
        messages = [_message(said, as_list=as_list) for said in chat]
        values = dict(self.values)
        if arrangement is not None and arrangement.reasoning == "field":
            values = {**keeping_arguments(self.text), **values}
        return _compiled(self.text).render(messages=messages, tools=None, documents=None, **values)


def find_template(settings: Mapping[str, Any]) -> StoredTemplate | None:
    """The chat template of an engine with these settings; None if it has none, or none on this machine.

    Args:
        settings: The ``model.engine`` section of vLLM.
    """
    text = _template_text(settings)
    if text is None:
        return None
    stored = _mapping(settings, "tokenizer_config.json")
    # A model without the token has a template that does not write it; here it stands for one that another file names.
    tokens = {name: _token(stored.get(name)) or f"<{name}>" for name in ("bos_token", "eos_token", "pad_token")}
    arguments = settings.get("chat_template_kwargs") or {}
    return StoredTemplate(text, {**tokens, **arguments, "add_generation_prompt": True})


def given_template(given: str) -> str:
    """The text of ``model.engine.chat_template``, which is that text or names its file.

    Raises:
        TemplateError: there is no such file, or it holds no template.
    """
    if "{" in given:
        return given
    text = _text(Path(given))
    if text is None:
        raise TemplateError(f"model.engine.chat_template={given}: cannot be read")
    if "{" not in text:
        raise TemplateError(f"model.engine.chat_template={given}: holds no template")
    return text


def _template_text(settings: Mapping[str, Any]) -> str | None:
    given = settings.get("chat_template")
    if isinstance(given, str):
        return given_template(given)
    if renders_chats_itself(settings):
        return None
    text = _file(settings, "chat_template.jinja")
    if text is not None:
        return text
    for name in ("chat_template.json", "tokenizer_config.json"):
        stored = _mapping(settings, name).get("chat_template")
        if isinstance(stored, list):
            stored = _default_of(stored)
        if isinstance(stored, str):
            return stored
    return None


def _default_of(stored: Sequence[Any]) -> Any:
    """Of several templates the one that vLLM takes."""
    for each in stored:
        if isinstance(each, dict) and each.get("name") == "default":
            return each.get("template")
    return None


def renders_chats_itself(settings: Mapping[str, Any]) -> bool:
    """Whether the model's own tokenizer renders chats, without a chat template, as far as its files are on this machine.

    vLLM takes Mistral's own for a folder that has its vocabulary and weights in Mistral's format.
    """
    mode = _mode(settings)
    if mode != "auto":
        return mode not in ("hf", "slow")
    passed = settings.get("vllm") or {}
    folder = Path(str(passed.get("tokenizer") or settings["model"]))
    return (folder / "tekken.json").is_file() and any(folder.glob("consolidated*.safetensors"))


def _mode(settings: Mapping[str, Any]) -> str:
    return str((settings.get("vllm") or {}).get("tokenizer_mode") or "auto")


def check_own_rendering(template: str | None, arguments: Mapping[str, Any], version: int = EFFORT_VERSION) -> None:
    """Refuse what a tokenizer that renders chats itself would ignore.

    Args:
        template: ``model.engine.chat_template``.
        arguments: ``model.chat_template_kwargs``.
        version: Of Mistral's format of chats; a plan does not know it.

    Raises:
        TemplateError: there is a template, or an argument that Mistral's tokenizers of this version do not know.
    """
    known = {"reasoning_effort"} if version >= EFFORT_VERSION else set()
    ignored = sorted(arguments.keys() - known)
    if template or ignored:
        given = f"chat_template_kwargs.{ignored[0]}" if ignored else "engine.chat_template"
        raise TemplateError(
            f"model.{given}: Mistral's own tokenizer renders this model's chats, without a chat template; of its arguments it "
            f"knows {', '.join(known) or 'none'}"
        )


def check_template(settings: Mapping[str, Any]) -> None:
    """Refuse arguments that a model's template does not know, and a template that no arrangement puts right.

    Nothing is refused if the template is not on this machine: the engine looks again when it starts.

    Args:
        settings: The ``model.engine`` section of vLLM.

    Raises:
        TemplateError: the message says what is wrong and what there is instead.
    """
    if renders_chats_itself(settings) and _mode(settings) in ("auto", "mistral"):
        check_own_rendering(settings.get("chat_template"), settings.get("chat_template_kwargs") or {})
        return
    template = find_template(settings)
    if template is None:
        return
    excess = _excess(template, settings)
    if excess:
        raise TemplateError(
            f"the chat template of {settings['model']} takes more than {excess} for a short chat. "
            "Give another one with model.engine.chat_template"
        )
    check_arguments(template.text, settings.get("chat_template_kwargs") or {})
    pictures, system_role, keeps_reasoning = _asked(settings)
    tried = list(arrangements(system_role, bool(pictures), keeps_reasoning))
    try:
        choose_arrangement(template.render, pictures, tried, marks_in(template.text))
    except WrongPromptError as error:
        kept = KEPT if tried[0].reasoning != "dropped" else ""
        raise TemplateError(
            f"the chat template of {settings['model']} does not pass chats on as they are{kept}: {error}. "
            "Give another one with model.engine.chat_template"
        ) from error


def _asked(settings: Mapping[str, Any]) -> tuple[int, SystemRole, bool]:
    """Most pictures of a prompt, how system turns are sent, and whether reasoning is kept."""
    pictures = (settings.get("limit_mm_per_prompt") or {}).get("image", 0)
    return pictures, settings.get("system_role", "auto"), settings.get("keeps_reasoning", False)


def _excess(template: StoredTemplate, settings: Mapping[str, Any]) -> str:
    """What a template exceeds when it renders all that a plan tries; empty if nothing."""
    if template.text == CHAT_TEMPLATE:
        return ""
    trial = {"text": template.text, "values": template.values, "asked": _asked(settings)}
    return _excess_of(json.dumps(trial, default=str))


@lru_cache(maxsize=16)
def _excess_of(trial: str) -> str:
    """See ``template_trial``, which runs in a process of its own."""
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "cluster.engines.template_trial"],
        input=trial.encode(),
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )
    if done.returncode == 0:
        return ""
    return f"{CPU_SECONDS} seconds" if done.returncode < 0 else f"{MORE_BYTES >> 20} MiB of memory"


def opening_of_reply(settings: Mapping[str, Any]) -> str:
    """The end of a prompt, where the model's reply begins; empty if the template is not on this machine, or fails."""
    try:
        template = find_template(settings)
        if template is None or _excess(template, settings):
            return ""
        return template.render(OPENING).rpartition("Choose.")[2]
    except Exception:  # expressions of templates raise whatever they like; ``check_template`` tells
        return ""


def keeping_arguments(template: str) -> dict[str, bool]:
    """The arguments with which a template keeps the reasoning of earlier turns, as far as it has such switches."""
    known = variables_of(template)
    return {name: value for name, value in _KEEPING.items() if name in known}


def marks_in(template: str | None) -> Marks:
    """The marks of thinking that a template writes; the most usual ones if it writes none."""
    text = template or ""
    for marks in THINKING_MARKS:
        if marks[1] in text:
            return marks
    return THINKING_MARKS[0]


def check_arguments(template: str, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that are no variables of a template, which would ignore them.

    Args:
        template: Its text.
        arguments: By name.

    Raises:
        TemplateError: there are some, or the template is none.
    """
    known = variables_of(template)
    unknown = sorted(arguments.keys() - known)
    if unknown:
        choices = ", ".join(sorted(name for name in known if name not in _OF_VLLM)) or "none"
        near = did_you_mean(unknown[0], known) or "."
        raise TemplateError(
            f"model.chat_template_kwargs: the model's chat template has no variable {unknown[0]}{near} It has {choices}"
        )


def variables_of(template: str) -> frozenset[str]:
    """The names that a template may read without having set them.

    Raises:
        TemplateError: it is no template.
    """
    environment = _environment()
    # looking for variables applies filters to constants, which may take any time and memory
    environment.filters = dict.fromkeys(environment.filters, lambda *_, **__: "")
    try:
        return frozenset(jinja2.meta.find_undeclared_variables(environment.parse(template)))
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(
            f"the model's chat template cannot be read: line {error.lineno}: {error.message}"
        ) from error
    except RecursionError:
        raise TemplateError("the model's chat template cannot be read: it is nested too deeply") from None


class _Generation(jinja2.ext.Extension):
    """The tag around what a model is trained to write: its content is rendered as if it were not there."""

    tags = {"generation"}  # noqa: RUF012 - declared by jinja2

    def parse(self, parser: Any) -> Any:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


@lru_cache(maxsize=16)
def _compiled(text: str) -> jinja2.Template:
    return _environment().from_string(text)


class _Generator(CodeGenerator):
    """Leaves all expressions to the rendering: those of constants could take any time and memory before it."""

    def _output_child_to_const(self, node: jinja2.nodes.Expr, frame: Any, finalize: Any) -> str:
        if isinstance(node, jinja2.nodes.TemplateData):
            return super()._output_child_to_const(node, frame, finalize)
        raise jinja2.nodes.Impossible


class _Environment(ImmutableSandboxedEnvironment):
    code_generator_class = _Generator
    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)


def _environment() -> ImmutableSandboxedEnvironment:
    """What transformers renders templates with: no attribute of Python within reach."""
    environment = _Environment(
        trim_blocks=True, lstrip_blocks=True, optimized=False, extensions=[_Generation, jinja2.ext.loopcontrols]
    )

    def refuse(message: str) -> None:
        raise TemplateError(message)

    environment.globals |= {"raise_exception": refuse, "strftime_now": PROMPT_DATE.strftime}
    environment.filters["tojson"] = lambda value, **how: json.dumps(value, ensure_ascii=False, **how)
    return environment


def _message(said: Message, *, as_list: bool) -> dict[str, Any]:
    """A message as templates get it: a list of parts, or one text with pictures in their places."""
    thought = {"reasoning": said.reasoning, "reasoning_content": said.reasoning} if said.reasoning else {}
    if as_list:
        parts = [{"type": "text", "text": each} if isinstance(each, str) else {"type": "image"} for each in said.parts]
        return {"role": said.role, "content": parts, **thought}
    text = "\n".join(each if isinstance(each, str) else PICTURE for each in said.parts)
    return {"role": said.role, "content": text, **thought}


def _token(stored: Any) -> str:
    text = stored.get("content") if isinstance(stored, dict) else stored
    return text if isinstance(text, str) else ""


def _mapping(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    try:
        found = parse_json(_file(settings, name) or "{}", name)
    except FileError:
        return {}
    return found if isinstance(found, dict) else {}


def _file(settings: Mapping[str, Any], name: str) -> str | None:
    """A file of the model's tokenizer: in its folder, or in the cache of the hub."""
    model, revision = _tokenizer_of(settings)
    if model == "tiny":
        return CHAT_TEMPLATE if name == "chat_template.jinja" else None
    if Path(model).is_dir():
        return _text(Path(model, name))
    # Neither a folder nor a repository of the hub.
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", model):
        return None
    return _cached(model, name, revision)


def _tokenizer_of(settings: Mapping[str, Any]) -> tuple[str, str | None]:
    """Where the tokenizer is, and its revision: the model's, unless vLLM is told another one."""
    passed = settings.get("vllm") or {}
    model = str(passed.get("tokenizer") or settings["model"])
    revision: str | None = passed.get("tokenizer_revision") or settings.get("revision")
    return model, revision


def _cached(model: str, name: str, revision: str | None) -> str | None:
    """A file in the cache of the hub; None where it is not there, or known to be missing from the repository."""
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    path = try_to_load_from_cache(model, name, revision=revision)
    if not isinstance(path, str):
        return None
    return _text(Path(path))


def _text(path: Path) -> str | None:
    try:
        return read_text(path, MOST_BYTES)
    except FileError:
        return None
