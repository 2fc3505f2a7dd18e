"""The vLLM engine: turns chats into prompts, pictures into pixels, and outputs into replies.

The scheduler and the model run in a child process (vLLM's EngineCore). Work in this process adds to the latency of every
request.
"""

from __future__ import annotations

import asyncio
import dataclasses
import multiprocessing
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar

from annotated_types import Interval

from cluster.engines.base import MANY, Capabilities, Engine, EngineDiedError, EngineError, Request, Sampling
from cluster.engines.chat_tokens import ChatTokens
from cluster.engines.child_log import ChildLog
from cluster.engines.hub_answers import fetch_small_files
from cluster.engines.prompt_check import BlankPicture, SystemRole
from cluster.engines.template_files import check_template, given_template, opening_of_reply
from cluster.engines.tiny_model import ensure_tiny_model
from cluster.engines.vllm_chat import VLLMChat, brief, room_for_reply
from cluster.engines.vllm_compat import client_errors, preemptions, reads_pictures
from cluster.engines.vllm_facts import WORKER_FACTS, PictureCounts, facts_of
from cluster.engines.vllm_fields import OPERATIONAL, check_passed_through, engine_fields, gpus_of, sampling_fields
from cluster.engines.vllm_process import executor, prepare_device, prepare_environment, started
from cluster.engines.vllm_reasoning import Reasoning, answers_next, check_thought, thinks
from cluster.engines.vllm_sampling import label_parameters, label_scores, reply_parameters
from cluster.prefix_cache.beginnings import HitWatch, SharedBeginnings
from envs.settings import Count, NotNegative
from evals.types import Message, PlayerError, Reply

CLOSE_SECONDS = 2.0
"""How long EngineCore may take to shut down; killing it frees the same resources."""
WARM_UP_TOKENS = 4


class VLLMEngine(Engine):
    """See the module's docstring; every argument except ``sampling`` may be set in ``conf/models.yaml``."""

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
            "shared_beginnings",
            "tensor_parallel_size",
            *(f"vllm.{name}" for name in OPERATIONAL),
        }
    )
    reads_files: ClassVar[bool] = True
    # Among the further fields of vLLM are classes and modules that it imports.
    given_again: ClassVar[frozenset[str]] = frozenset({"trust_remote_code", "vllm"})

    @classmethod
    def capabilities(cls, settings: Mapping[str, Any]) -> Capabilities:
        """As many pictures as ``limit_mm_per_prompt`` allows, and exact label scores unless the model thinks first."""
        limits, template = settings.get("limit_mm_per_prompt") or {}, settings.get("chat_template_kwargs") or {}
        parser = (settings.get("vllm") or {}).get("reasoning_parser")
        return Capabilities(
            limits.get("image", 0),
            options=True,
            label_scores=not thinks(parser, template) and answers_next(opening_of_reply(settings)),
            context=settings.get("max_model_len"),
        )

    @classmethod
    def check_settings(cls, settings: Mapping[str, Any]) -> None:
        """Reject what cannot be passed through to vLLM.

        Raises:
            ValueError: see ``check_passed_through``.
        """
        passed = settings.get("vllm")
        check_passed_through(passed if isinstance(passed, Mapping) else {}, cls.__init__.__annotations__)

    @classmethod
    def texts_of_files(cls, settings: Mapping[str, Any]) -> Mapping[str, str]:
        """The chat template.

        Raises:
            ValueError: its file cannot be read, or holds none.
        """
        given = settings.get("chat_template")
        return {"chat_template": given_template(given)} if given else {}

    @classmethod
    def check_environment(cls, settings: Mapping[str, Any]) -> None:
        """Try the chat template, if it is on this machine.

        Raises:
            ValueError: it lacks a variable of ``model.chat_template_kwargs``, or does not pass chats on as they are.
        """
        check_template(settings)

    @classmethod
    def keys_within(cls) -> Mapping[str, Mapping[str, Any]]:
        """``vllm`` takes the fields of the installed ``AsyncEngineArgs``."""
        return {"vllm": engine_fields()}

    @classmethod
    def sampling_keys(cls) -> Mapping[str, Any]:
        """The fields of the installed ``SamplingParams``."""
        return sampling_fields()

    def __init__(
        self,
        sampling: Sampling,
        model: str,
        revision: str | None = None,
        tensor_parallel_size: Count = 1,
        pipeline_parallel_size: Count = 1,
        max_model_len: Count | None = None,
        max_num_seqs: Count = 64,
        max_num_batched_tokens: Count = 8192,
        dtype: str = "auto",
        gpu_memory_utilization: Annotated[float, Interval(gt=0, le=1)] = 0.9,
        kv_cache_gib: NotNegative | None = None,
        enforce_eager: bool = False,
        block_size: Count | None = None,
        shared_beginnings: bool = False,
        limit_mm_per_prompt: Mapping[str, int] | None = None,
        mm_processor_kwargs: Mapping[str, Any] | None = None,
        mm_processor_cache_gb: NotNegative = 1.0,
        trust_remote_code: bool = False,
        vllm: Mapping[str, Any] | None = None,
        system_role: SystemRole = "auto",
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        keeps_reasoning: bool = False,
        deterministic: bool = False,
    ) -> None:
        """Configure an engine; nothing is loaded before ``start``.

        Args:
            sampling: sampling parameters.
            model: a folder, which counts by its content, a name on the Hugging Face hub, or ``tiny`` for the tiny model that is
                created locally.
            revision: branch, tag or commit on the hub.
            tensor_parallel_size: GPUs that share each layer; preferably on one node.
            pipeline_parallel_size: groups of such GPUs, each with a part of the layers: one per node of a multi-node replica.
            max_model_len: most tokens of prompt and reply together; the model's own limit by default.
            max_num_seqs: batch slots.
            max_num_batched_tokens: most tokens of one step. vLLM's own default depends on how it is started: 2,048 here,
                8,192 in its server, 16,384 in its offline class on an H100.
            dtype: of weights and activations.
            gpu_memory_utilization: share of the GPU's memory to use.
            kv_cache_gib: size of the KV cache in GiB, instead of a share of the memory; needed without a GPU.
            enforce_eager: no CUDA graphs: faster startup, slower decoding.
            block_size: tokens of a KV-cache block; the prefix cache shares whole blocks only. vLLM's default if null.
            shared_beginnings: for hybrid models: ask for the beginning that prompts share on its own first, so that the model's
                state is stored at its end.
            limit_mm_per_prompt: most pictures in one prompt: ``{image: 16}``. Ignored by text-only models.
            mm_processor_kwargs: for the model's image processor; for Qwen2.5-VL the range of pixels, such as
                ``{size: {shortest_edge: 3136, longest_edge: 1003520}}``.
            mm_processor_cache_gb: cache for preprocessed pictures in GiB; allocated twice.
            trust_remote_code: run code that comes with the model.
            vllm: any further fields of vLLM's ``AsyncEngineArgs``: ``{quantization: fp8, reasoning_parser: qwen3}``.
            system_role: how system turns are sent: ``system``, at the start of the first user turn (``user``), or the first
                of these that the chat template passes on as it is (``auto``).
            chat_template: a chat template in place of the model's own: its text, or in a configuration a file with it.
            chat_template_kwargs: arguments of the chat template: ``{enable_thinking: false}``.
            keeps_reasoning: whether prompts hold what the model thought in earlier turns (``history.reasoning``).
            deterministic: use vLLM's batch-invariant kernels, where the GPU and the model have them.
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
            "scheduling_policy": "priority",
            "disable_log_stats": True,
            "worker_extension_cls": WORKER_FACTS,
            "use_tqdm_on_load": False,
            **(vllm or {}),
        }
        self._arguments["distributed_executor_backend"] = executor(gpus_of(self._arguments))
        self._shared_beginnings = shared_beginnings
        self._system_role, self._keeps_reasoning, self._deterministic = system_role, keeps_reasoning, deterministic
        self._template = chat_template or None
        self._reasoning_parser = (vllm or {}).get("reasoning_parser")
        self._template_arguments = dict(chat_template_kwargs or {})
        self._engine: Any = None
        self._beginnings: SharedBeginnings | None = None
        self._log = ChildLog()
        self._pictures = PictureCounts()
        self._facts: dict[str, str | float] = {}

    @property
    def arguments(self) -> dict[str, Any]:
        """All arguments of vLLM's engine except the model."""
        return dict(self._arguments)

    def picture_cache(self) -> tuple[int, int]:
        """Hits and queries of vLLM's cache of preprocessed pictures since this was last called."""
        self._engine.renderer.update_mm_cache_stats()
        self._pictures.add(self._engine.renderer.stat_mm_cache())
        return self._pictures.take()

    @property
    def max_num_seqs(self) -> int:
        """Requests in one batch."""
        return self._max_num_seqs

    @property
    def facts(self) -> dict[str, str | float]:
        """See ``vllm_facts.facts_of``."""
        return dict(self._facts)

    async def start(self) -> None:
        """Load the model and send a few warm-up requests.

        Raises:
            HubBusyError: the hub that has its files is busy.
            EngineError: the model cannot be loaded, or has no chat template.
        """
        home = str(ensure_tiny_model()) if self.model == "tiny" else self.model
        prepare_environment(local=Path(home).is_dir(), deterministic=self._deterministic)
        if not Path(home).is_dir():
            await asyncio.to_thread(fetch_small_files, home, self._arguments["revision"])
        prepare_device(self._arguments, self._deterministic)
        self._engine = started(self.model, home, self._arguments, self._log, self._pictures)
        try:
            await self._prepare()
        except (EngineError, PlayerError) as error:
            await self.close()
            raise EngineError(str(error)) from error
        except Exception as error:  # of a tokenizer, template or parser of another form than those known here
            await self.close()
            raise EngineError(
                f"vLLM loaded {self.model}, but its tokenizer, chat template or reasoning parser cannot be used: "
                f"{type(error).__name__}: {brief(error)}"
            ) from error

    async def _prepare(self) -> None:
        """Wrap the loaded model's tokenizer, template and reasoning parser, and warm up."""
        self._facts = await facts_of(self._engine)
        config, tokenizer = self._engine.model_config, self._engine.renderer.get_tokenizer()
        self.max_model_len: int = config.max_model_len
        self._tokens = ChatTokens(tokenizer)
        self._chat = VLLMChat(
            self.model,
            self._engine.renderer,
            self._tokens,
            reads_pictures(config),
            self._template_arguments,
            self._template,
        )
        pictures = self._arguments["limit_mm_per_prompt"].get("image", MANY)
        self._chat.arrange(self._system_role, pictures, self._keeps_reasoning)
        cache = self._engine.vllm_config.cache_config
        block, hybrid = cache.block_size, bool(getattr(config, "is_hybrid", False))
        self._hits = HitWatch(block, hybrid=hybrid) if cache.enable_prefix_caching else None
        if hybrid and self._shared_beginnings:
            unit, step = self._arguments.get("prefix_match_unit"), self._arguments["max_num_batched_tokens"]
            self._beginnings = SharedBeginnings(block, unit, step)
        self._reasoning = Reasoning(tokenizer, self._tokens, self._reasoning_parser, self._template_arguments)
        chat = (Message("system", ("Be brief.",)), Message("user", ("Are you there?\n\nAnswer A or B.",)))
        text = self._chat.rendered(chat)["prompt"]
        self._tokens.check(text)
        self._chat.check_ids(chat)
        requests = [Request("warm-up text", chat)]
        if self._reasoning.parsed or not self._reasoning.opened(text):
            requests.append(Request("warm-up choice", chat, options=("A", "B")))
        if answers_next(text):
            self._chat.check_choices(text)
            requests.append(Request("warm-up labels", chat, labels=("A", "B")))
        for request in requests:
            with suppress(PlayerError):  # letters need not be single tokens; requests for their scores fail later
                await self._complete(request, time.monotonic(), WARM_UP_TOKENS)
        if self._chat.multimodal:
            look = Request("warm-up picture", (Message("user", (BlankPicture(), "Look.")),))
            await self._complete(look, time.monotonic(), WARM_UP_TOKENS)

    async def complete(self, request: Request) -> Reply:
        """Answer one request.

        Raises:
            PlayerError: it can never be answered (``PromptTooLong``: it does not fit the context).
            EngineError: the engine failed (``EngineDiedError``: it died).
        """
        if self._engine is None:
            raise EngineError("the engine is not running")
        return await self._complete(request, time.monotonic())

    async def _complete(self, request: Request, start: float, most_tokens: int | None = None) -> Reply:
        rendered = self._chat.rendered(request.chat)
        opened = self._reasoning.opened(rendered["prompt"])
        check_thought(request, rendered["prompt"], opened, self._reasoning.parsed, self.model)
        labels = self._chat.label_tokens(rendered["prompt"], request.labels)
        prompt = await self._chat.engine_input(rendered)
        room = room_for_reply(len(prompt["prompt_token_ids"]), self.max_model_len, self.sampling.max_tokens)
        parameters = self._parameters(request, labels, min(room, most_tokens or room))
        if self._beginnings is not None:
            await self._beginnings.store(prompt, lambda short: self._begin(request, short))
        output = await self._generate(request, prompt, parameters)
        if self._hits is not None:
            self._hits.saw(len(output.prompt_token_ids), output.num_cached_tokens or 0)
        answer = output.outputs[0]
        scores = label_scores(labels, answer) if labels else None
        if scores:
            text = request.labels[scores.logprobs.index(max(scores.logprobs))]
        elif parameters.detokenize:
            text = answer.text
        else:
            text = self._tokens.decode(answer.token_ids)
        # A label is one token, so its length is no limit that it met.
        is_cut_off = answer.finish_reason == "length" and not labels
        reply = Reply(
            text=text,
            finish="length" if is_cut_off else "stop",
            prompt_tokens=len(output.prompt_token_ids),
            completion_tokens=len(answer.token_ids),
            cached_tokens=output.num_cached_tokens or 0,
            preemptions=preemptions(output.metrics),
            label_scores=scores,
        )
        if not request.labels:
            reply = self._read(request, reply, answer.token_ids, opened)
        return dataclasses.replace(reply, seconds=time.monotonic() - start)

    def _read(self, request: Request, reply: Reply, ids: Sequence[int], opened: str) -> Reply:
        """Separate the reasoning of a written reply; without a parser, constrained replies have none."""
        if not request.options:
            return self._reasoning.separate(reply, ids, opened)
        if self._reasoning.parsed:
            reply = self._reasoning.separate(reply, ids, opened)
        if reply.text not in request.options and not (reply.reasoning and not reply.text):
            raise PlayerError(f"the context ended within the reply {reply.text!r}, which is none of the options")
        return reply

    def _parameters(self, request: Request, labels: list[int], room: int) -> Any:
        if labels:
            return label_parameters(labels)
        return reply_parameters(
            self.sampling,
            request,
            room,
            lossless=self._tokens.lossless and not self._reasoning.parsed and self._reasoning.skip_special_tokens,
            skip_special_tokens=self._reasoning.skip_special_tokens,
            reasons=self._reasoning.parsed,
        )

    async def _begin(self, request: Request, beginning: Mapping[str, Any]) -> None:
        """Have the beginning of a request's prompt computed; what follows it is thrown away."""
        first = dataclasses.replace(request, id=f"{request.id}-beginning")
        await self._generate(first, beginning, label_parameters([0]))

    async def _generate(self, request: Request, prompt: Mapping[str, Any], parameters: Any) -> Any:
        from vllm.v1.engine.exceptions import EngineDeadError

        output = finish = None
        keywords: dict[str, Any] = {}
        if self._reasoning.parsed:  # constrained replies begin after the reasoning
            keywords["reasoning_parser_kwargs"] = {"chat_template_kwargs": self._template_arguments}
        try:
            async for final in self._engine.generate(
                prompt, parameters, request.id, priority=request.priority, **keywords
            ):
                output = final
        except EngineDeadError as error:
            raise EngineDiedError(f"vLLM died: {self._log.cause() or 'its process is gone'}") from error
        except client_errors() as error:
            raise PlayerError(f"vLLM refused the request: {brief(error)}") from error
        except Exception as error:
            cause = error.__cause__ or error
            if isinstance(cause, ValueError):
                raise PlayerError(f"vLLM refused the request: {brief(cause)}") from error
            raise EngineError(f"vLLM failed: {type(cause).__name__}: {brief(cause)}") from error
        if output is not None:
            finish = output.outputs[0].finish_reason
        if finish not in ("stop", "length", "repetition"):
            raise EngineError(f"vLLM aborted the request: {finish}")
        return output

    async def load_weights(self, model: str) -> bool:
        """Have vLLM's workers read the weights of a folder into the model that runs, and forget what the old ones computed.

        Raises:
            EngineError: the prefix cache cannot be emptied.
        """
        await self._engine.collective_rpc("reload_weights", kwargs={"weights_path": model})
        # vLLM keeps the blocks of its prefix cache: answers to prompts that were asked before would mix both models.
        if not await self._engine.reset_prefix_cache():
            raise EngineError("the prefix cache is in use")
        await self._engine.reset_mm_cache()
        await self._engine.reset_encoder_cache()
        self.model = model
        await self._prepare()
        return True

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
