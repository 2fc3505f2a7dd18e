"""What a run's model needs of GPUs, said before anything is loaded (``raycade plan``), and settings that cannot work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from cluster.engines.base import Capabilities
from cluster.engines.template_files import find_template
from cluster.engines.vllm_fields import gpus_of
from cluster.errors import UserError
from cluster.models.hub import TINY, known
from cluster.models.memory import REACHED, cache_bytes, fit_on, gpu_hours, parallel_sizes
from cluster.models.table import CONTEXT, GIB, Model, gpus
from evals.tables import Cell, Table


def model_of(engine: Mapping[str, Any] | None) -> Model | None:
    """What is known of the model that vLLM is to load; None for other engines and for models whose files are not here."""
    if not engine or engine.get("type") != "vllm" or not isinstance(engine.get("model"), str):
        return None
    return None if engine["model"] == TINY else known(engine["model"], engine.get("revision"))


def within_model(engine: Mapping[str, Any] | None, can: Capabilities) -> Capabilities:
    """An engine's capabilities without pictures where the model itself reads text only."""
    model = model_of(engine)
    return replace(can, pictures=0) if model is not None and not model.family.sees else can


def picture_rule(engine: Mapping[str, Any] | None) -> Callable[[int, int], float] | None:
    """How the model counts a picture's tokens, within the bounds that the settings give; None where that is not known."""
    model = model_of(engine)
    if engine is None or model is None or model.family.pictures is None:
        return None
    return model.family.pictures.within(engine.get("mm_processor_kwargs") or {}).tokens


def _further_parts(arguments: Mapping[str, Any]) -> str:
    """The settings that part a model otherwise than by tensors, as far as they do."""
    parts = ""
    for name in ("pipeline_parallel_size", "prefill_context_parallel_size"):
        number = arguments.get(name, 1)
        if number not in (None, 1):
            parts += f" {name}={number}"
    return parts


def check_parallel(engine: Mapping[str, Any] | None, reserved: float) -> str:
    """See that a replica's GPUs are those that vLLM will use.

    Args:
        engine: The section ``model.engine``.
        reserved: GPUs of a replica on all its nodes; 0 without GPUs.

    Returns:
        A warning where GPUs are reserved that nothing uses; else nothing.

    Raises:
        UserError: there are too few, or they cannot share the model's heads.
    """
    if not engine or engine.get("type") != "vllm":
        return ""
    passed = engine.get("vllm") or {}
    arguments = {**engine, **passed}
    tensor = engine.get("tensor_parallel_size") or 1
    used = gpus_of(arguments)
    parts = f"model.engine.tensor_parallel_size={tensor}{_further_parts(arguments)}"
    if reserved and used > max(1, reserved):
        raise UserError(f"{parts}: takes {used} GPUs; model.replica.gpus and nodes reserve {reserved:g}")
    model = model_of(engine)
    if model is not None:
        sizes = parallel_sizes(model.shape)
        if tensor not in sizes:
            fitting = ", ".join(map(str, sizes))
            raise UserError(
                f"{parts}: {model.id} has {model.shape.heads} heads, which so many GPUs cannot share; {fitting} can"
            )
    if reserved > used:
        return f"a replica reserves {reserved:g} GPUs and uses {used}; see model.engine.tensor_parallel_size"
    return ""


def unchecked_arguments(engine: Mapping[str, Any] | None) -> str:
    """A warning where arguments of the chat template cannot be compared with its variables yet; else nothing.

    Args:
        engine: The section ``model.engine``.
    """
    if not engine or engine.get("type") != "vllm" or not engine.get("chat_template_kwargs"):
        return ""
    if find_template(engine) is not None:
        return ""
    names = ", ".join(engine["chat_template_kwargs"])
    model = model_of(engine)
    switch = model.thinking.switch if model is not None and model.thinking is not None else ""
    known = f"; its family has {switch}" if switch else ""
    return f"the chat template of {engine['model']} is not on this machine: {names} are checked when the engine starts{known}"


def hardware_table(
    engine: Mapping[str, Any] | None, prompt_tokens: float, reply_tokens: float, calls: float
) -> Table | None:
    """GPUs that would do, sequences that fit them, and GPU-hours by the roofline; None where the model is not known.

    Args:
        engine: The section ``model.engine``.
        prompt_tokens: Of all calls, none of them cached.
        reply_tokens: Of all calls.
        calls: How many.
    """
    model = model_of(engine)
    if engine is None or model is None:
        return None
    length = engine.get("max_model_len") or CONTEXT
    passed = engine.get("vllm") or {}
    used = gpus_of({**engine, **passed})
    halfway = (prompt_tokens + reply_tokens / 2) / max(1.0, calls)
    # Of other quantizations the weights count as published.
    precision = "fp8" if passed.get("quantization") == "fp8" else ""
    rows: list[tuple[Cell, ...]] = []
    slots, crowded = engine.get("max_num_seqs") or 64, list[str]()
    for name, gpu in gpus().items():
        # As many GPUs as the settings say, or the fewest that do where these are too few.
        fit = fit_on(model, gpu, length, used, precision) or fit_on(model, gpu, length, precision=precision)
        kind = f"{name}, {gpu.memory:g} GB"
        if fit is None:
            rows.append((kind, "does not fit", None, None, None, None))
            continue
        short = fit_on(model, gpu, max(1, int(halfway)), fit.gpus, precision) or fit
        batch = max(1, min(short.sequences, slots))
        if short.sequences < slots:
            crowded.append(f"{name} {short.sequences}")
        hours = gpu_hours(model, gpu, prompt_tokens, reply_tokens, batch, halfway)
        expected = f"{_brief(hours.low)} to {_brief(hours.high)}"
        rows.append((kind, fit.gpus, fit.sequences, fit.replicas, _brief(hours.bound), expected))
    columns = ("GPU", "GPUs a replica", "sequences at once", "replicas on 8 GPUs", "GPU-hours at least", "expected")
    token = cache_bytes(model.shape, 2 * length) - cache_bytes(model.shape, length)
    low, high = REACHED
    cache = f"{token / length / 1024:.0f} KiB a token, {cache_bytes(model.shape, length) / GIB:.2f} GiB for {length:,}"
    notes: tuple[str, ...] = (
        f"Weights: {model.weights(precision):.1f} GiB in {precision or model.published}. Cache: {cache}, the sequence counted.",
        f"tensor_parallel_size that works: {', '.join(map(str, parallel_sizes(model.shape)))}.",
        "GPU-hours: no prompt cached, replies at their limit, at the vendor's peaks; expected where "
        f"{low:.0%} to {high:.0%} of these are reached (an assumption; `--like RUN` measures).",
        f"Tokens of a step: {engine.get('max_num_batched_tokens') or model.step:,} (model.engine.max_num_batched_tokens).",
        f"What is known of {model.id}: {model.verified or 'from memory, unverified'}.",
    )
    if crowded:
        notes += (
            f"model.engine.max_num_seqs={slots} does not fit requests of {halfway:,.0f} tokens, those of this plan halfway "
            f"through their replies, so vLLM would put some back: {', '.join(crowded)} fit.",
        )
    return Table("hardware", f"{model.name} on GPUs", columns, tuple(rows), notes)


def _brief(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.2g}"
