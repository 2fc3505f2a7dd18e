"""What engines of this machine make of chats, templates, settings, replies and errors, on record in ``tests/golden``."""

import asyncio
import contextlib
import dataclasses
import functools
import json
import os
import shutil
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tokenizers

from cluster.engines import (
    base,
    chat_tokens,
    child_log,
    hub_answers,
    prompt_check,
    simulated,
    template_files,
    tiny_model,
    vllm_chat,
    vllm_compat,
    vllm_facts,
    vllm_fields,
    vllm_process,
    vllm_reasoning,
    vllm_sampling,
    vllm_worker,
)
from cluster.engines.base import Request, Sampling
from cluster.engines.simulated import SimulatedEngine
from evals.types import Message, Reply, message
from tests.cluster.openai_api.test_requests import Dot
from tests.golden import check_said, plain
from tests.said import Said, Thing

MODULES = (simulated, base, chat_tokens, child_log, hub_answers, prompt_check, template_files, tiny_model)
MODULES += (vllm_chat, vllm_compat, vllm_fields, vllm_process, vllm_reasoning, vllm_sampling)


def shown(value) -> str:
    return value if isinstance(value, str) else plain(value)


# --- templates ---

SYSTEM = message("system", "Play.", "Be brief.")
CHAT = (
    SYSTEM,
    message("user", "Look:", Dot(9), "Go."),
    Message("assistant", ("A",), "Hm."),
    message("user", Dot(9), "On."),
)
PLAIN = "{% for m in messages %}<{{ m.role }}>{{ m.content if m.content is string else m.content|map(attribute='text')|join }}"
PLAIN += "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
PARTS = (
    "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    "{% if p.type == 'image' %}<i>{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}{% endfor %}"
)
THINKS = PARTS.replace("<{{ m.role }}>", "<{{ m.role }}>{{ m.reasoning_content or '' }}")


def checked(prompt, chat=CHAT, mark="<i>") -> str:
    try:
        check_prompt = prompt_check.check_prompt
        check_prompt(chat, prompt, prompt_check.re.compile(mark) if mark else None)
    except prompt_check.WrongPromptError as error:
        return str(error)
    return "right"


def chosen(template, pictures=3, role="auto", keeps=False) -> str:
    """The arrangement in which a template passes chats on, or why there is none."""
    stored = template_files.StoredTemplate(template, {"add_generation_prompt": True})
    tried = list(prompt_check.arrangements(role, bool(pictures), keeps))
    try:
        found, mark = prompt_check.choose_arrangement(stored.render, pictures, tried, template_files.marks_in(template))
    except prompt_check.WrongPromptError as error:
        return str(error)
    return f"{found} {mark and mark.pattern}"


def stored(files, **settings) -> str:
    """The template of a model whose folder has these files."""
    path = Path(f"model{len([*Path().glob('model*')])}")
    path.mkdir()
    for name, content in files.items():
        (path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return plain(template_files.find_template({"model": str(path), **settings}))


def cached(**settings) -> str:
    """What is looked for in the cache of the hub, where one file is found."""
    said = []
    Path("cached.json").write_text('{"chat_template": "{{ a }}", "bos_token": "<s>"}')

    def look(model, name, revision):
        said.append(f"{model} {name} {revision}")
        return {"chat_template.json": object(), "tokenizer_config.json": "cached.json"}.get(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.try_to_load_from_cache", look)
        return f"{plain(template_files.find_template({'model': 'org/m', **settings}))} {said}"


def excess(**values) -> str:
    """What the process is told that tries a template."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(template_files, "_excess_of", lambda trial: trial)
        template = template_files.StoredTemplate("{{ a }}", values)
        return template_files._excess(template, {"limit_mm_per_prompt": {"image": 3}, "system_role": "user"})


def tried_apart(code, path="/p") -> str:
    """What is run to try a template, and what an end with this code means."""
    said, root = [], str(Path(template_files.__file__).parents[2])

    def run(command, env, **how):
        same = command[0] == sys.executable and "PATH" in env
        said.append(f"{same} {command[1:]} {how} {env['PYTHONPATH'].replace(root, 'ROOT')}")
        return SimpleNamespace(returncode=code)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(template_files, "subprocess", SimpleNamespace(run=run))
        patch.setenv("PYTHONPATH", path)
        return f"{template_files._excess_of.__wrapped__(f'é {code} {path}')!r} {said}"


# --- tokens and replies ---


def token(content, special=True, **kinds):
    """A token as a tokenizer knows it."""
    kinds = {**dict.fromkeys(("lstrip", "rstrip", "single_word", "normalized"), False), **kinds}
    return SimpleNamespace(content=content, special=special, **kinds)


SPECIAL = {1: token("<a>"), 2: token("<ab>"), 3: token("<l>", lstrip=True), 4: token("<r>", rstrip=True)}
SPECIAL |= {5: token("<s>", single_word=True), 6: token("<n>", normalized=True), 7: token("<o>", special=False)}


class Words:
    """A tokenizer: every letter is a token, but for words in brackets; it strips blanks where it is told so."""

    def __init__(self, strips=False, all_special_tokens=(), tekken=False):
        self.strips, self.all_special_tokens, self.added_tokens_decoder = strips, all_special_tokens, SPECIAL
        self.is_tekken, self.all_special_ids = tekken, range(1, 1 + len(all_special_tokens))

    def encode(self, text, add_special_tokens=False):
        for number, token in ((2, "<ab>"), (1, "<a>")):
            text = text.replace(token, chr(number))
        text = text.replace("AB", "@")
        return [ord(sign) for sign in (text.strip() if self.strips else text)]

    def decode(self, ids, skip_special_tokens=True):
        return "".join(chr(number) for number in ids if number > 9 or not skip_special_tokens)


def tokens(**settings):
    return chat_tokens.ChatTokens(Words(**settings))


class Parser:
    """As one of vLLM's: what stands before ``</r>`` is reasoning."""

    reasoning_end_str = "</r>"
    only_boundaries = False

    def __init__(self, tokenizer, chat_template_kwargs):
        if "wrong" in chat_template_kwargs:
            raise chat_template_kwargs["wrong"]("could not locate its tokens")

    def adjust_request(self, request):
        return SimpleNamespace(skip_special_tokens=False)

    def extract_reasoning(self, text, request):
        if self.only_boundaries:
            raise NotImplementedError
        thought, end, answer = text.partition("</r>")
        return (thought, answer or None) if end else (None, text)


class Boundaries(Parser):
    only_boundaries = True


def reasoning(parser=None, special=(), **arguments):
    return vllm_reasoning.Reasoning(Words(all_special_tokens=special), tokens(), parser, arguments)


def separated(said, opened="", parser=None) -> str:
    return plain(reasoning(parser).separate(Reply(said, completion_tokens=9), Words().encode(said), opened))


def thought(prompt, parsed=False, **asked) -> None:
    opened = reasoning().opened(prompt)
    vllm_reasoning.check_thought(Request("r", (), **asked), prompt, opened, parsed, "m")


def parameters(room=100, lossless=True, skips=True, reasons=False, sampling=None, **asked) -> dict:
    request = Request("r", (), seed=5, **asked)
    how = {"lossless": lossless, "skip_special_tokens": skips, "reasons": reasons}
    return dict(sorted(vllm_sampling.reply_parameters(sampling or Sampling(), request, room, **how).items()))


ODD = Sampling(
    7, 0.5, 0.9, 5, 0.1, 0.2, -0.3, 1.1, ("x", "y"), {"min_tokens": 9, "logit_bias": {"3": 1}, "ignore_eos": True}
)


def scores(*values, likeliest=1):
    row = {number: SimpleNamespace(logprob=value) for number, value in enumerate(values)}
    return SimpleNamespace(logprobs=[row] if values else None, token_ids=[likeliest])


# --- errors ---


def answered(status, words="429 Client  Error", **headers):
    error = RuntimeError(words)
    error.response = SimpleNamespace(status_code=status, headers=headers)
    return error


def under(error, *causes):
    """An error with what led to it, the last one as its context."""
    inner = error
    for cause in causes:
        inner.__cause__, inner = cause, cause
    return error


def of_client(name, words=""):
    return type(name, (Exception,), {"__module__": "httpx._exceptions"})(words)


def cause(*lines) -> str:
    log = child_log.ChildLog()
    log._lines.extend(lines)
    return log.cause()


# --- the process that hosts vLLM ---


def environment(call, *given, **before) -> dict:
    """Variables of the environment that a call sets, where these were set before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vllm_process, "os", SimpleNamespace(environ=dict(before)))
        patch.setattr(vllm_process, "torch_compat", SimpleNamespace(apply=lambda: None))
        call(*given)
        return vllm_process.os.environ


def silent(*statistics) -> str:
    """What a logger without a server makes of pictures' statistics."""
    counts = vllm_facts.PictureCounts()
    with pytest.MonkeyPatch.context() as patch:
        loggers = SimpleNamespace(PrometheusStatLogger=type("PrometheusStatLogger", (), {}))
        patch.setitem(sys.modules, "vllm.v1.metrics.loggers", loggers)
        kind = vllm_facts.silent_statistics(counts)
        logger = kind("config", [0])
        for each in statistics:
            logger.record("scheduler", "iteration", each, 0)
        logger.record("scheduler", None)
        nothing = [
            logger.log_engine_initialized(),
            logger.record_sleep_state(1, 2),
            logger.record_admission_rejection("x"),
        ]
    return f"{[each.__name__ for each in kind.__mro__[:2]]} {counts.take()} {nothing}"


CHOICE = vllm_compat.choice


def with_vllm(call, *given, **modules):
    """What a call returns where vLLM's modules are these."""
    with pytest.MonkeyPatch.context() as patch:
        for name, found in modules.items():
            patch.setitem(sys.modules, name.replace("__", "."), SimpleNamespace(**found))
        return call(*given)


def choices(grammar, *options) -> dict:
    """How one of some texts is asked for where vLLM writes a line break so."""
    return with_vllm(CHOICE, options, vllm__v1__structured_output__utils={"choice_as_grammar": lambda options: grammar})


def client_errors(**found) -> list[str]:
    return sorted(
        each.__name__ for each in with_vllm(vllm_compat.client_errors, vllm={"exceptions": SimpleNamespace(**found)})
    )


def worker(*backends, **times) -> dict:
    """Facts of a worker whose layers have these backends of attention."""
    groups = [
        [SimpleNamespace(backend=SimpleNamespace(get_name=name.strip)) for name in several] for several in backends
    ]
    runner, config = SimpleNamespace(attn_groups=groups), SimpleNamespace(compilation_config=SimpleNamespace(**times))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vllm_worker, "_CAPTURE_TIME", SimpleNamespace(seconds=2.5))
        return vllm_worker.WorkerFacts.raycade_facts(SimpleNamespace(vllm_config=config, model_runner=runner))


# --- the simulated engine ---


async def _simulated(settings, requests) -> str:
    given = {"sampling": Sampling(max_tokens=50), "step_seconds": 0.0, "prefill_tokens_per_second": 1e9}
    engine, said = SimulatedEngine(**{**given, **settings}), []
    began = time.monotonic()
    await engine.start()
    assert time.monotonic() - began >= engine.start_seconds
    for request in requests:
        try:
            reply = await engine.complete(request)
            assert 0 <= reply.seconds <= time.monotonic() - began
            said.append(plain(dataclasses.replace(reply, seconds=0.0)))
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
    await engine.close()
    load = {name: value for name, value in vars(engine.load).items() if name != "slot_seconds"}
    return "\n".join([*said, plain(load)])


def simulated_replies(*requests, **settings) -> str:
    return asyncio.run(_simulated(settings, requests))


def faulty(text, before="", there=True, taken=False, running=(False, True)) -> str:
    """What an engine makes of a file that names a fault, what waits is told, and what is left of the file."""
    path = Path(f"fault{len([*Path().glob('fault*')])}")
    path.mkdir()
    engine = SimulatedEngine(Sampling(), fault_file=str(path / "file"))
    engine._fault, said = before, []
    done = [
        SimpleNamespace(done=lambda over=over: over, set_exception=lambda error: said.append(repr(error)))
        for over in running
    ]
    engine._batch = [SimpleNamespace(done=each) for each in done]
    if there:
        (path / "file").write_text(text)
    if taken:
        (path / f"file.{os.getpid()}").mkdir()
    try:
        engine._check_fault_file()
    except Exception as error:
        said.append(f"raises {error!r}")
    left = [each.name.replace(str(os.getpid()), "PID") for each in sorted(path.iterdir())]
    return f"{engine._fault!r} {engine._slower:g} {len(engine._batch)} {said} {left}"


def until_next(*ends, steps=0.0, debt=0.0, slower=1.0, fault=None) -> float | None:
    """Seconds until something is to be done by an engine whose requests end at these steps."""
    engine = SimulatedEngine(Sampling(), step_seconds=0.5, step_seconds_per_seq=0.25, fault_file=fault)
    engine._batch = [SimpleNamespace(ends_at_step=end) for end in ends]
    engine._steps, engine._prefill_debt, engine._slower = steps, debt, slower
    return engine._seconds_to_next()


def advanced(*times, batch=2, debt=0.0, slower=1.0) -> str:
    """Steps, what is left of the prompts' work and slot-seconds of an engine at these times."""
    engine, said = SimulatedEngine(Sampling(), step_seconds=0.5, step_seconds_per_seq=0.25), []
    engine._batch, engine._prefill_debt, engine._slower = [None] * batch, debt, slower
    for now in times:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(simulated, "time", SimpleNamespace(monotonic=lambda now=now: now))
            engine._advance()
        said.append(plain([engine._steps, engine._prefill_debt, engine.load.slot_seconds]))
    return " ".join(said)


def asked(number, *said, **fields) -> Request:
    return Request(f"r{number}", tuple(message("user", text) for text in said), seed=number, **fields)


# --- the tiny model ---


def test_the_tiny_model_is_written_as_on_record(monkeypatch, tmp_path, capsys):
    said, home = Said(capsys, tmp_path), tmp_path / "tiny"
    home.mkdir()
    torch = Thing(said, "torch", random=Thing(said, "random", fork_rng=lambda devices: contextlib.nullcontext()))
    transformers = Thing(said, "transformers", utils=Thing(said, "utils"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    monkeypatch.setitem(sys.modules, "transformers.utils", transformers.utils)
    monkeypatch.setattr(tiny_model, "torch_compat", Thing(said, "torch_compat"))
    tiny_model.write_tiny_model(home)
    for path in sorted(home.iterdir()):
        said(path.name, path.read_text() if path.name != "tokenizer.json" else "")
    tokenizer = tokenizers.Tokenizer.from_file(str(home / "tokenizer.json"))
    for text in ("The test's  outcome 365:\n\n doesn't", "a<|im_end|><think>é</think>", "naïve 北京 🙂"):
        found = tokenizer.encode(text)
        said(
            tokenizer.get_vocab_size(),
            found.tokens,
            [tokenizer.decode(found.ids, skip_special_tokens=no) for no in (False, True)],
        )
    named = {"image_token": "<i>"}
    said(tiny_model.write_tokenizer(home, "abab ab", 262, ["<p>", "<e>", "<i>"], "<e>", ["<t>"], named))
    said((home / "tokenizer_config.json").read_text())
    for given, where in ((str(tmp_path / "given"), None), ("", tmp_path), ("", None)):
        monkeypatch.setenv("RAYCADE_CACHE", given)
        monkeypatch.setattr(tiny_model, "home_folder", lambda where=where: where)
        said.tried("cache", tiny_model.cache_directory)
    monkeypatch.setenv("RAYCADE_CACHE", str(tmp_path / "new" / "cache"))

    def written(draft, error=None, meanwhile=False):
        (draft / "config.json").touch()
        said(draft.name[:-8], draft.parent)
        if meanwhile:
            (draft.parent / "tiny-qwen2.5-vl-v2" / "config").mkdir(parents=True)
        if error:
            raise error

    for error, meanwhile in ((OSError("full"), False), (None, True), (OSError("full"), True), (None, False)):
        shutil.rmtree(tmp_path / "new", ignore_errors=True)
        monkeypatch.setattr(
            tiny_model, "write_tiny_model", functools.partial(written, error=error, meanwhile=meanwhile)
        )
        for _ in range(2):
            said.tried(f"{error} {meanwhile}", tiny_model.ensure_tiny_model)
        said(*((path.name, oct(path.stat().st_mode)) for path in (tmp_path / "new" / "cache").iterdir()))
    said.check("tiny_model")


@pytest.mark.parametrize("text", ["templates", "local"])
def test_engines_of_this_machine_say_what_is_on_record(text, monkeypatch, tmp_path):
    own = {"_parser_class": {"own": Parser, "bounds": Boundaries}.__getitem__, "_empty_request": lambda: None}
    for name, value in own.items():
        monkeypatch.setattr(vllm_reasoning, name, value)
    monkeypatch.setattr(vllm_sampling, "_parameters", lambda **settings: settings)
    monkeypatch.setattr(vllm_compat, "choice", lambda options: {"choice": list(options)})
    outside = SimpleNamespace(StructuredOutputsParams=dict, RepetitionDetectionParams=dict)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", outside)
    registry = SimpleNamespace(supports_multimodal_inputs=lambda config: config.registered)
    monkeypatch.setitem(sys.modules, "vllm.multimodal", SimpleNamespace(MULTIMODAL_REGISTRY=registry))
    monkeypatch.chdir(tmp_path)
    named = {name: value for module in MODULES for name, value in vars(module).items() if not name.startswith("__")}
    check_said(f"engines_{text}", {**named, "np": np, **globals()}, shown)
