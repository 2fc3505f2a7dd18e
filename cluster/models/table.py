"""The table of models, ``conf/models.yaml``: its rows, the section ``model`` that each makes, and models that have no row.

Its columns are explained in the file itself.

    >>> row = rows()["qwen2_5_vl_7b"]
    >>> row.id, row.family.pictures.rule, row.shape.kv_heads
    ('Qwen/Qwen2.5-VL-7B-Instruct', 'grid', 4)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any, Literal

from cluster.models.pictures import Rule
from envs.files import parse_yaml

BYTES: Mapping[str, float] = {"bf16": 2, "fp8": 1, "int4": 0.5, "mxfp4": 0.53}
"""Bytes of a parameter."""
GIB = 2**30
HF = "hf"
"""The name of models without a row: ``model=hf model.engine.model=ORGANIZATION/NAME``."""
CONTEXT = 32768
"""Tokens of prompt and reply together, where a row says nothing."""


@dataclass(frozen=True)
class Gpu:
    """A GPU as its vendor describes it."""

    memory: float
    """GB (10^9 bytes)."""
    tflops: float
    """Peak of dense operations in bfloat16."""
    bandwidth: float
    """TB/s."""


@dataclass(frozen=True)
class Template:
    """How a family's chat template takes a chat."""

    content: Literal["parts", "string"]
    system: Literal["own", "user", "unknown"]
    date: bool = False
    strip: tuple[str, ...] = ()


@dataclass(frozen=True)
class Thinking:
    """Whether and how a family reasons before it answers."""

    marks: str
    default: Literal["on", "off", "always"]
    parser: str
    labels: Literal["yes", "off", "never"]
    switch: str = ""


@dataclass(frozen=True)
class Family:
    """What models of all sizes of a family share."""

    name: str
    architecture: str
    template: Template
    processor: Literal["transformers", "vllm", "remote", "none"] = "none"
    thinking: Thinking | None = None
    pictures: Rule | None = None
    cache: Literal["attention", "sliding", "hybrid", "latent"] = "attention"

    @property
    def sees(self) -> bool:
        """Whether it reads pictures."""
        return self.processor != "none"


@dataclass(frozen=True)
class Shape:
    """The numbers of a model on which its memory depends; those of ``conf/models.yaml``."""

    layers: int
    heads: int
    kv_heads: int = 0
    head_dim: int = 0
    whole: int | None = None
    whole_kv: int | None = None
    whole_dim: int | None = None
    window: int = 0
    latent: int = 0
    state: float = 0


@dataclass(frozen=True)
class Model:
    """A row of the table."""

    name: str
    id: str
    family: Family
    license: str
    total: float
    """Billions of parameters."""
    active: float
    """Billions of parameters that a token uses."""
    shape: Shape
    gpus: int
    gated: bool = False
    remote_code: bool = False
    published: str = "bf16"
    gib: float | None = None
    thinking: Thinking | None = None
    step: int = 8192
    engine: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)
    verified: str = ""

    def weights(self, precision: str = "") -> float:
        """GiB of the weights in a precision of ``BYTES``; as published, if none is given."""
        if self.gib is not None and precision in ("", self.published):
            return self.gib
        return self.total * 1e9 * BYTES[precision or self.published] / GIB


def section_of(name: str, model: Model) -> dict[str, Any]:
    """The section ``model`` of a run that plays a model under a name."""
    sees = model.family.sees
    engine: dict[str, Any] = {
        "type": "vllm",
        "model": model.id,
        "tensor_parallel_size": min(model.gpus, 8),
        "max_model_len": CONTEXT,
        "max_num_seqs": 64,
        "max_num_batched_tokens": model.step,
        "gpu_memory_utilization": 0.9,
    }
    if model.gpus > 8:  # one group of a node's GPUs for each node
        engine["pipeline_parallel_size"] = model.gpus // 8
    if sees:
        engine |= {"limit_mm_per_prompt": {"image": 64}, "mm_processor_cache_gb": 4}
    if model.remote_code:
        engine["trust_remote_code"] = True
    # Chain of thought needs far more tokens than an answer alone, which ends by itself.
    sampling: Mapping[str, Any] = {"temperature": 0.0, "max_tokens": 4096}
    if model.thinking is not None and model.thinking.default != "off":
        engine |= {"max_model_len": 40960, "vllm": {"reasoning_parser": model.thinking.parser}}
        sampling = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_tokens": 32768}
    own = dict(model.engine)
    own["vllm"] = {**engine.get("vllm", {}), **own.get("vllm", {})}
    if not own["vllm"]:
        del own["vllm"]
    return {
        "name": name,
        "engine": engine | own,
        "sampling": dict(model.sampling or sampling),
        "replica": {"gpus": min(model.gpus, 8), "cpus": 4 if sees else 2, "nodes": max(1, model.gpus // 8)},
    }


@lru_cache(maxsize=1)
def _table() -> Mapping[str, Any]:
    path = resources.files("conf").joinpath("models.yaml")
    table: Mapping[str, Any] = parse_yaml(path.read_text(encoding="utf-8"), path)
    return table


@lru_cache(maxsize=1)
def gpus() -> Mapping[str, Gpu]:
    """The GPUs that ``raycade plan`` knows, by name."""
    return {name: Gpu(**values) for name, values in _table()["gpus"].items()}


@lru_cache(maxsize=1)
def families() -> Mapping[str, Family]:
    """All families by name."""
    return {name: _family(name, values) for name, values in _table()["families"].items()}


@lru_cache(maxsize=1)
def rows() -> Mapping[str, Model]:
    """All models by name."""
    return {name: _model(name, values) for name, values in _table()["models"].items()}


def row_of(id: str) -> Model | None:
    """The row of a model on the hub; None if it has none."""
    return next((row for row in rows().values() if row.id.lower() == id.lower()), None)


def family_of(architecture: str) -> Family | None:
    """The family of an architecture; None if the table has none."""
    return next((family for family in families().values() if family.architecture == architecture), None)


def _family(name: str, values: Mapping[str, Any]) -> Family:
    thinking, pictures = values.get("thinking"), values.get("pictures")
    template = {**values["template"], "strip": tuple(values["template"].get("strip", ()))}
    parts = {
        "template": Template(**template),
        "thinking": Thinking(**{"switch": "", **thinking}) if thinking else None,
        "pictures": Rule(**pictures) if pictures else None,
    }
    return Family(name, **{**values, **parts})


def _model(name: str, values: Mapping[str, Any]) -> Model:
    given = dict(values)
    family = families()[given.pop("family")]
    billions = given.pop("billions")
    total, active = billions if isinstance(billions, list) else (billions, billions)
    thinking = given.pop("thinking", None)
    return Model(
        name,
        family=family,
        total=total,
        active=active,
        shape=Shape(**given.pop("shape")),
        thinking=Thinking(**thinking) if thinking else family.thinking,
        **given,
    )
