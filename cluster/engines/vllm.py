"""The vLLM engine: turns chats into prompts, pictures into pixels, and outputs into replies.

The scheduler and the model run in a child process (vLLM's EngineCore). Work in this process adds to the latency of every
request, so repeated text is tokenized once and repeated pictures are rendered once.
"""

from __future__ import annotations

import logging
import math
import multiprocessing
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from PIL import Image

from cluster.engines import torch_compat
from cluster.engines.base import Capabilities, Engine, EngineDiedError, EngineError, Request, Sampling
from cluster.engines.chat_tokens import ChatTokens
from cluster.engines.child_log import ChildLog
from cluster.engines.tiny_model import ensure_tiny_model
from envs.picture import Picture
from evals.types import Chat, LabelScores, Message, PlayerError, PromptTooLong, Reply

logger = logging.getLogger(__name__)

MOST_LABELS = 128
"""Labels that vLLM scores in one request."""
CHOICE_LABELS = (*"ABCD", *"12345678")
"""Labels that suites use for choices; checked when the engine starts."""
PICTURES = 256
"""Cached rendered pictures; one of 576 x 576 pixels takes a megabyte."""

CLOSE_SECONDS = 2.0
"""How long EngineCore may take to shut down; killing it frees the same resources."""


class VLLMEngine(Engine):
    """See the module's docstring; every argument except ``sampling`` may be set in a file of ``conf/model``."""

    operational: ClassVar[frozenset[str]] = frozenset(
        {
            "block_size",
            "enforce_eager",
            "gpu_memory_utilization",
            "kv_cache_gib",
            "max_num_batched_tokens",
            "max_num_seqs",
            "mm_processor_cache_gb",
            "pipeline_parallel_size",
            "tensor_parallel_size",
        }
    )

    @classmethod
    def capabilities(cls, settings: Mapping[str, Any]) -> Capabilities:
        """As many pictures as ``limit_mm_per_prompt`` allows; constrained replies and exact label scores always."""
        limits = settings.get("limit_mm_per_prompt") or {}
        return Capabilities(
            limits.get("image", 0), options=True, label_scores=True, context=settings.get("max_model_len")
        )

    def __init__(
        self,
        sampling: Sampling,
        model: str,
        revision: str | None = None,
        tensor_parallel_size: int = 1,
        pipeline_parallel_size: int = 1,
        max_model_len: int | None = None,
        max_num_seqs: int = 64,
        max_num_batched_tokens: int | None = None,
        dtype: str = "auto",
        gpu_memory_utilization: float = 0.9,
        kv_cache_gib: float | None = None,
        enforce_eager: bool = False,
        block_size: int | None = None,
        limit_mm_per_prompt: Mapping[str, int] | None = None,
        mm_processor_kwargs: Mapping[str, Any] | None = None,
        mm_processor_cache_gb: float = 1.0,
        trust_remote_code: bool = False,
    ) -> None:
        """Configure an engine; nothing is loaded before ``start``.

        Args:
            sampling: sampling parameters.
            model: a folder, a name on the Hugging Face hub, or ``tiny`` for the tiny model that is created locally.
            revision: branch, tag or commit on the hub.
            tensor_parallel_size: GPUs that share each layer; preferably on one node.
            pipeline_parallel_size: groups of such GPUs, each with a part of the layers: one per node of a multi-node replica.
            max_model_len: most tokens of prompt and reply together; the model's own limit by default.
            max_num_seqs: batch slots.
            max_num_batched_tokens: most tokens of one step; vLLM's default if null.
            dtype: of weights and activations.
            gpu_memory_utilization: share of the GPU's memory to use.
            kv_cache_gib: size of the KV cache in GiB, instead of a share of the memory; needed without a GPU.
            enforce_eager: no CUDA graphs: faster startup, slower decoding.
            block_size: tokens of a KV-cache block; the prefix cache shares whole blocks only. vLLM's default if null.
            limit_mm_per_prompt: most pictures in one prompt: ``{image: 16}``. Ignored by text-only models.
            mm_processor_kwargs: for the model's image processor; for Qwen2.5-VL the range of pixels, such as
                ``{size: {shortest_edge: 3136, longest_edge: 1003520}}``.
            mm_processor_cache_gb: cache for preprocessed pictures in GiB; allocated twice.
            trust_remote_code: run code that comes with the model.
        """
        self.sampling, self.model = sampling, model
        self._max_num_seqs = max_num_seqs
        self._arguments: dict[str, Any] = {
            "revision": revision,
            "tensor_parallel_size": tensor_parallel_size,
            "pipeline_parallel_size": pipeline_parallel_size,
            "max_model_len": max_model_len,
            "max_num_seqs": max_num_seqs,
            "max_num_batched_tokens": max_num_batched_tokens,
            "dtype": dtype,
            "gpu_memory_utilization": gpu_memory_utilization,
            "kv_cache_memory_bytes": int(kv_cache_gib * 2**30) if kv_cache_gib else None,
            "enforce_eager": enforce_eager,
            "block_size": block_size,
            "limit_mm_per_prompt": {"video": 0, **(limit_mm_per_prompt or {})},
            "mm_processor_kwargs": dict(mm_processor_kwargs) if mm_processor_kwargs else None,
            "mm_processor_cache_gb": mm_processor_cache_gb,
            "trust_remote_code": trust_remote_code,
            "distributed_executor_backend": executor(tensor_parallel_size * pipeline_parallel_size),
            "scheduling_policy": "priority",
            "disable_log_stats": True,
            "use_tqdm_on_load": False,
        }
        self._render = lru_cache(maxsize=PICTURES)(_image)
        self._engine: Any = None
        self._log = ChildLog()

    @property
    def max_num_seqs(self) -> int:
        """Requests in one batch."""
        return self._max_num_seqs

    async def start(self) -> None:
        """Load the model and send a few warm-up requests.

        Raises:
            EngineError: the model cannot be loaded, or has no chat template.
        """
        home = str(ensure_tiny_model()) if self.model == "tiny" else self.model
        prepare_environment(local=Path(home).is_dir())
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.platforms import current_platform
        from vllm.v1.engine.async_llm import AsyncLLM

        if current_platform.is_cpu():
            prepare_cpu(self._arguments["tensor_parallel_size"], self._arguments["enforce_eager"])
        try:
            with self._log:
                self._engine = AsyncLLM.from_engine_args(AsyncEngineArgs(model=home, **self._arguments))
        except Exception as error:
            raise EngineError(f"vLLM cannot start {self.model}: {self._log.cause() or _brief(error)}") from error
        config = self._engine.model_config
        self.max_model_len: int = config.max_model_len
        self.multimodal: bool = config.supports_multimodal_inputs
        self._tokens = ChatTokens(self._engine.renderer.get_tokenizer())
        try:
            await self._warm_up()
        except PlayerError as error:
            await self.close()
            raise EngineError(str(error)) from error

    async def _warm_up(self) -> None:
        chat = (Message("user", ("Are you there?\n\nAnswer A or B.",)),)
        text = self._rendered(chat)["prompt"]
        self._tokens.check(text)
        self._check_choices(text)
        await self.complete(Request("warm-up text", chat))
        await self.complete(Request("warm-up choice", chat, options=("A", "B")))
        with suppress(PlayerError):  # letters need not be single tokens; requests for their scores fail later
            await self.complete(Request("warm-up labels", chat, labels=("A", "B")))
        if self.multimodal:
            image = {"type": "image_pil", "image_pil": Image.new("RGB", (112, 112)), "uuid": "warm-up"}
            prompt = self._template([{"role": "user", "content": [image, {"type": "text", "text": "Look."}]}])
            await self._generate("warm-up picture", await self._engine_input(prompt), self._parameters(max_tokens=1), 0)

    async def complete(self, request: Request) -> Reply:
        """Answer one request.

        Raises:
            PlayerError: it can never be answered (``PromptTooLong``: it does not fit the context).
            EngineError: the engine failed (``EngineDiedError``: it died).
        """
        if self._engine is None:
            raise EngineError("the engine is not running")
        start = time.monotonic()
        return await self._complete(request, start)

    async def _complete(self, request: Request, start: float) -> Reply:
        rendered = self._rendered(request.chat)
        labels = self._label_tokens(rendered["prompt"], request.labels)
        prompt = await self._engine_input(rendered)
        room = self._room(prompt)
        parameters = self._request_parameters(request, labels, room)
        output = await self._generate(request.id, prompt, parameters, request.priority)
        answer = output.outputs[0]
        scores = label_scores(labels, answer) if labels else None
        if scores:
            text = request.labels[scores.logprobs.index(max(scores.logprobs))]
        else:
            text = answer.text if parameters.detokenize else self._tokens.decode(answer.token_ids)
            if request.options and text not in request.options:
                raise PlayerError(f"the context ended within the reply {text!r}, which is none of the options")
        cached = output.num_cached_tokens or 0
        return Reply(
            text=text,
            finish="length" if answer.finish_reason == "length" and not labels else "stop",
            prompt_tokens=len(output.prompt_token_ids),
            completion_tokens=len(answer.token_ids),
            cached_tokens=cached,
            seconds=time.monotonic() - start,
            label_scores=scores,
        )

    async def check_health(self) -> None:
        """Raise if the EngineCore process is gone."""
        from vllm.v1.engine.exceptions import EngineDeadError

        if self._engine is None:
            raise EngineError("the engine is not running")
        try:
            await self._engine.check_health()
            await self._engine.is_sleeping()  # a round trip through the EngineCore, which the check above does not make
        except EngineDeadError as error:
            raise EngineDiedError(f"vLLM died: {self._log.cause() or 'its process is gone'}") from error

    async def close(self) -> None:
        """End the EngineCore process and with it its workers."""
        if self._engine is not None:
            engine, self._engine = self._engine, None
            engine.shutdown(timeout=CLOSE_SECONDS)
            for child in multiprocessing.active_children():
                if child.name.startswith("EngineCore"):
                    child.join(CLOSE_SECONDS)

    # --- from chat to prompt ---

    def _rendered(self, chat: Chat) -> dict[str, Any]:
        """The chat in the model's own format: ``prompt`` (text), pictures and their ids."""
        if not self.multimodal and any(isinstance(part, Picture) for said in chat for part in said.parts):
            raise PlayerError(f"{self.model} reads text only, but the prompt contains a picture")
        return self._template([{"role": said.role, "content": [*map(self._part, said.parts)]} for said in chat])

    def _part(self, part: str | Picture) -> dict[str, Any]:
        if isinstance(part, str):
            return {"type": "text", "text": part}
        try:
            return {"type": "image_pil", "image_pil": self._render(part), "uuid": part.key}
        except Exception as error:
            raise PlayerError(f"a picture cannot be rendered: {_brief(error)}: {part.description[:200]}") from error

    def _template(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        from vllm.renderers import ChatParams

        settings = ChatParams(chat_template_kwargs={"add_generation_prompt": True, "tokenize": False})
        try:
            rendered: dict[str, Any] = self._engine.renderer.render_messages(list(messages), settings)[1]
        except Exception as error:
            # Templates and picture limits reject a chat with arbitrary exceptions; none of them harms the engine.
            raise PlayerError(f"{self.model} cannot read this chat: {_brief(error)}") from error
        return rendered

    async def _engine_input(self, rendered: Mapping[str, Any]) -> dict[str, Any]:
        """Token ids with every picture's placeholder expanded, and the pictures as the model's tensors."""
        prompt = {**rendered, "prompt_token_ids": self._tokens.encode(rendered["prompt"])}
        del prompt["prompt"]
        try:
            ready: dict[str, Any] = await self._engine.renderer.process_for_engine_async(prompt, time.time())
        except Exception as error:
            raise PlayerError(f"{self.model} cannot read this chat: {_brief(error)}") from error
        return ready

    def _room(self, prompt: Mapping[str, Any]) -> int:
        """Tokens left for the reply."""
        length = len(prompt["prompt_token_ids"])
        if length >= self.max_model_len:
            raise PromptTooLong(
                f"the prompt has {length} tokens, pictures included; with max_model_len={self.max_model_len} "
                f"leaves no room for a reply (max_tokens={self.sampling.max_tokens})"
            )
        return self.max_model_len - length

    def _label_tokens(self, text: str, labels: Sequence[str]) -> list[int]:
        """The token of each label, as it would follow ``text``."""
        if len(labels) > MOST_LABELS:
            raise PlayerError(f"{len(labels)} labels in one turn; vLLM scores {MOST_LABELS} at most")
        found = [(label, self._tokens.label_token(text, label)) for label in labels]
        split = [label for label, token in found if token is None]
        if split:
            raise PlayerError(self._split_labels(split))
        return [token for _, token in found if token is not None]

    def _check_choices(self, text: str) -> None:
        """Warn at startup about usual labels that cannot be scored, instead of late in a chain of questions."""
        split = [label for label in CHOICE_LABELS if self._tokens.label_token(text, label) is None]
        if split:
            logger.warning("%s; turns that ask for their scores will fail", self._split_labels(split))

    def _split_labels(self, labels: Sequence[str]) -> str:
        names = ", ".join(map(repr, labels))
        what = f"label {names} is not a single token" if len(labels) == 1 else f"labels {names} are not single tokens"
        return f"the {what} of {self.model} after its chat template"

    # --- from prompt to answer ---

    def _request_parameters(self, request: Request, labels: list[int], room: int) -> Any:
        if labels:
            # Requested by id, the log-probabilities are exact. Never mix these requests with top-k ones (logprobs=k) on one
            # engine: in one batch with these, vLLM's V1 model runner returns wrong rows for those.
            return self._parameters(max_tokens=1, temperature=0.0, logprob_token_ids=labels)
        drawn: dict[str, Any] = {
            "temperature": self.sampling.temperature,
            "presence_penalty": self.sampling.presence_penalty,
            "frequency_penalty": self.sampling.frequency_penalty,
            "repetition_penalty": self.sampling.repetition_penalty,
        }
        if self.sampling.temperature > 0:
            drawn |= {name: getattr(self.sampling, name) for name in ("top_p", "top_k", "min_p")}
            drawn["seed"] = request.seed
        if request.options:
            from vllm.sampling_params import StructuredOutputsParams

            # No token is shorter than a byte, so the longest option always fits, whatever the limit for free text.
            longest = max(len(option.encode()) for option in request.options) + 1
            choice = StructuredOutputsParams(choice=list(request.options))
            return self._parameters(max_tokens=min(longest, room), structured_outputs=choice, **drawn)
        stop = list(self.sampling.stop) or None
        return self._parameters(max_tokens=min(self.sampling.max_tokens, room), stop=stop, **drawn)

    def _parameters(self, **settings: Any) -> Any:
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        # Detokenizing a reply once, at its end, takes a fraction of the time of doing it token by token.
        settings["detokenize"] = bool(settings.get("stop")) or not self._tokens.lossless
        return SamplingParams(output_kind=RequestOutputKind.FINAL_ONLY, **settings)

    async def _generate(self, request_id: str, prompt: Mapping[str, Any], parameters: Any, priority: int) -> Any:
        from vllm.exceptions import VLLMClientError
        from vllm.v1.engine.exceptions import EngineDeadError

        output = None
        try:
            async for final in self._engine.generate(prompt, parameters, request_id, priority=priority):
                output = final
        except EngineDeadError as error:
            raise EngineDiedError(f"vLLM died: {self._log.cause() or 'its process is gone'}") from error
        except (VLLMClientError, ValueError) as error:
            raise PlayerError(f"vLLM refused the request: {_brief(error)}") from error
        except Exception as error:
            cause = error.__cause__ or error
            if isinstance(cause, ValueError):
                raise PlayerError(f"vLLM refused the request: {_brief(cause)}") from error
            raise EngineError(f"vLLM failed: {type(cause).__name__}: {_brief(cause)}") from error
        if output is None or output.outputs[0].finish_reason not in ("stop", "length"):
            raise EngineError(f"vLLM aborted the request: {output and output.outputs[0].finish_reason}")
        return output


def label_scores(tokens: Sequence[int], answer: Any) -> LabelScores:
    """Label scores from vLLM's output; at temperature 0 the generated token is the most probable one."""
    row = answer.logprobs[0]
    logprobs = tuple(float(row[token].logprob) for token in tokens)
    mass = math.fsum(math.exp(logprob) for logprob in logprobs)
    return LabelScores(logprobs, mass=mass, argmax_is_label=answer.token_ids[0] in tokens)


def executor(gpus: int) -> str:
    """The executor backend of vLLM: in this process or on this node, or Ray for a multi-node replica.

    Set explicitly, because in a Ray actor vLLM would otherwise place its workers itself.
    """
    import ray

    if ray.is_initialized() and ray.util.get_current_placement_group() is not None:
        return "ray"
    return "uni" if gpus == 1 else "mp"


def prepare_environment(local: bool) -> None:
    """Set vLLM's environment variables that the user has not set; call this before importing vllm."""
    torch_compat.apply()
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if local:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")


def prepare_cpu(tensor_parallel_size: int, enforce_eager: bool) -> None:
    """Settings for CPUs, measured with the tiny model on two cores.

    A worker inside the EngineCore process starts 6 s sooner than one in a separate process (10 s instead of 16 s). With one
    thread it answers as many requests as with two on an idle machine (38 and 35 per second, 3,000 tokens each), and several
    times as many on a busy one, where two threads wait for each other. Ray sets OMP_NUM_THREADS to the actor's CPUs.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if tensor_parallel_size == 1:
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    if enforce_eager:
        # The sampler would still compile a kernel, which takes 20 s at the first label request.
        os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")


def _image(picture: Picture) -> Image.Image:
    return Image.fromarray(picture.render())


def _brief(error: BaseException) -> str:
    """An error's message on one line, shortened."""
    message = " ".join(str(error).split()) or type(error).__name__
    return message if len(message) <= 400 else f"{message[:400]} ..."
