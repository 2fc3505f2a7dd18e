"""Replays a run's calls in bare vLLM as one offline batch: the bound that raycade is compared with.

Used by ``benchmarks.pipeline``, ``benchmarks.mseval_sweep`` and ``benchmarks.gpu``, each in the same run as its own figure.
The batch runs in a separate process, with the run's own settings of vLLM, warmed up, and with its pictures rendered before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from cluster.config.settings import settings_from_config
from cluster.engines.base import Request
from cluster.engines.chat_tokens import ChatTokens
from cluster.engines.tiny_model import ensure_tiny_model
from cluster.engines.vllm import VLLMEngine
from cluster.engines.vllm_process import prepare_cpu, prepare_environment
from cluster.engines.vllm_sampling import label_parameters, reply_parameters
from cluster.storage.stored_run import Run
from envs.picture import Picture
from evals.ledger.records import chat_of
from evals.types import Chat

PICTURE_TOKEN = "<|image_pad|>"
"""Qwen's placeholder, of which a picture takes many."""


@dataclass(frozen=True)
class Bare:
    """What one offline batch took."""

    calls: int
    seconds: float
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    least_prompt_tokens: int
    """Prompt tokens if every distinct prefix is computed once."""
    step_tokens: int
    """Most tokens of a step."""

    @property
    def calls_per_second(self) -> float:
        """Throughput."""
        return self.calls / self.seconds


def ask_bare_vllm(run_dir: Path) -> Bare:
    """Ask all calls of a finished run again.

    Raises:
        subprocess.CalledProcessError: vLLM failed; its output was shown.
        RuntimeError: it takes other steps than the run's engines.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        subprocess.run([sys.executable, "-m", "benchmarks.bare_vllm", str(run_dir), str(result)], check=True)
        bare = Bare(**json.loads(result.read_text()))
    check_steps(run_dir, bare)
    return bare


def step_tokens_of(run_dir: Path) -> set[int]:
    """Most tokens of a step of each engine that played in a run."""
    return {engine["step_tokens"] for session in Run(run_dir).sessions for engine in session["engines"].values()}


def check_steps(run_dir: Path, bare: Bare) -> None:
    """See that both sides took equal steps, without which their ratio compares unlike things.

    Raises:
        RuntimeError: they did not.
    """
    if (ours := step_tokens_of(run_dir)) != {bare.step_tokens}:
        raise RuntimeError(f"steps of {sorted(ours)} tokens beside bare vLLM's {bare.step_tokens}")


def requests_of(run_dir: Path) -> list[Request]:
    """All calls of a run's model, in the order of the ledger."""
    rows = Run(run_dir).episodes(["turns", "player"]).to_pylist()
    model = Run(run_dir).config["model"]["name"]
    return [
        Request(
            f"{row}-{number}",
            chat_of(played["turns"], number),
            tuple(turn["options"] or ()) if not turn["labels"] else (),
            tuple(label["label"] for label in turn["labels"] or ()),
        )
        for row, played in enumerate(rows)
        if played["player"] == model
        for number, turn in enumerate(played["turns"])
    ]


def run_batch(run_dir: Path) -> Bare:
    """The offline batch, in this process."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1"  # vLLM's default, so that tokenization overlaps with the model
    prepare_environment(local=True)
    from omegaconf import OmegaConf
    from vllm import LLM
    from vllm.platforms import current_platform

    settings = settings_from_config(OmegaConf.create(Run(run_dir).config))
    engine = settings.model.make_engine()
    assert isinstance(engine, VLLMEngine)
    if current_platform.is_cpu():
        prepare_cpu(1, True)
    home = str(ensure_tiny_model()) if engine.model == "tiny" else engine.model
    llm = LLM(model=home, **engine.arguments)
    tokens = ChatTokens(llm.get_tokenizer())
    requests = requests_of(run_dir)
    tail = llm.get_tokenizer().apply_chat_template(
        [{"role": "user", "content": ""}], tokenize=False, add_generation_prompt=True
    )
    parameters = [
        label_parameters([tokens.label_token(tail, label) or 0 for label in request.labels])
        if request.labels
        else reply_parameters(
            engine.sampling,
            request,
            settings.model.sampling.max_tokens + 4096,
            lossless=False,
            skip_special_tokens=True,
            reasons=False,
        )
        for request in requests
    ]
    pictures: dict[Picture, Image.Image] = {}
    messages = [list(_messages(request.chat, pictures)) for request in requests]
    llm.chat([[{"role": "user", "content": f"Warm up {n}."}] for n in range(4)], parameters[0], use_tqdm=False)
    start = time.perf_counter()
    outputs = llm.chat(messages, parameters, use_tqdm=False)
    seconds = time.perf_counter() - start
    placeholder = llm.get_tokenizer().convert_tokens_to_ids(PICTURE_TOKEN)
    names = {picture: -1 - number for number, picture in enumerate(pictures)}
    prompts = [
        _named(output.prompt_token_ids, placeholder, [names[each] for each in _pictures(request.chat)])
        for output, request in zip(outputs, requests, strict=True)
    ]
    return Bare(
        calls=len(outputs),
        seconds=seconds,
        prompt_tokens=sum(map(len, prompts)),
        cached_tokens=sum(output.num_cached_tokens or 0 for output in outputs),
        completion_tokens=sum(len(output.outputs[0].token_ids) for output in outputs),
        least_prompt_tokens=distinct_prefixes(prompts),
        step_tokens=llm.llm_engine.vllm_config.scheduler_config.max_num_batched_tokens,
    )


def distinct_prefixes(prompts: Sequence[Sequence[int]]) -> int:
    """Tokens to compute if no prefix is computed twice: the nodes of the prompts' trie."""
    total, before = 0, list[int]()
    for prompt in sorted(map(list, prompts)):
        shared = 0
        while shared < min(len(prompt), len(before)) and prompt[shared] == before[shared]:
            shared += 1
        total += len(prompt) - shared
        before = prompt
    return total


def _named(ids: Sequence[int], placeholder: int, pictures: Sequence[int]) -> list[int]:
    """Prompt tokens in which each picture's placeholders name the picture."""
    named, left, inside = list[int](), iter(pictures), False
    picture = 0
    for token in ids:
        if token != placeholder:
            inside = False
            named.append(token)
            continue
        if not inside:
            picture, inside = next(left), True
        named.append(picture)
    return named


def _pictures(chat: Chat) -> Iterator[Picture]:
    return (part for said in chat for part in said.parts if isinstance(part, Picture))


def _messages(chat: Chat, pictures: dict[Picture, Image.Image]) -> Iterator[dict[str, Any]]:
    for said in chat:
        content: list[dict[str, Any]] = []
        for part in said.parts:
            if isinstance(part, str):
                content.append({"type": "text", "text": part})
                continue
            if part not in pictures:
                pictures[part] = Image.fromarray(part.render())
            content.append({"type": "image_pil", "image_pil": pictures[part]})
        yield {"role": said.role, "content": content}


if __name__ == "__main__":  # vLLM starts its core in a separate process, which imports this file again
    Path(sys.argv[2]).write_text(json.dumps(asdict(run_batch(Path(sys.argv[1])))))
