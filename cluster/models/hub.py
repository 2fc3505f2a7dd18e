"""A model that the table does not name, by its id: read from its own files, and made a row like the others.

The files are looked for in a folder, in Hugging Face's cache, among the copies in ``configs`` and on the hub, in this order.
They are other people's: they are read with bounds, and nothing of them is run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from cluster.errors import UserError
from cluster.models.table import CONTEXT, HF, Family, Model, Shape, Template, family_of, row_of, rows, section_of
from envs.files import Bounds, FileError, MissingFileError, read_json

CONFIG, GENERATION, PROCESSOR = "config.json", "generation_config.json", "preprocessor_config.json"
INDEX = "model.safetensors.index.json"
SAMPLED = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
"""What of a generation config raycade has settings for."""
SEES = ("vision_config", "vision_tower", "vit_config", "img_processor", "embd_layer")
"""Keys of which a config of a model that reads pictures has one."""
TINY = "tiny"
"""The model that is created locally, whoever plays it."""
BOUNDS = Bounds(16 * 2**20, 32, 1_000_000)
"""The index of a model with many experts has some megabytes."""


@dataclass(frozen=True)
class Files:
    """The files of a model that tell what it is."""

    id: str
    source: str
    """Where they were found."""
    config: Mapping[str, Any]
    generation: Mapping[str, Any] = field(default_factory=dict)
    processor: Mapping[str, Any] = field(default_factory=dict)
    index: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    """Where they lie, with tokenizer and template; None for a copy."""
    copy: Mapping[str, Any] = field(default_factory=dict)
    """What a copy says of tokenizer, template and processor."""

    @property
    def architecture(self) -> str:
        """The name of its class."""
        return str((self.config.get("architectures") or [""])[0])

    @property
    def sees(self) -> bool:
        """Whether it reads pictures."""
        return any(key in self.config for key in SEES)


def files_of(id: str, online: bool = True, revision: str | None = None) -> Files:
    """The files of a model.

    Args:
        id: ORGANIZATION/NAME on the hub, or a folder.
        online: Whether the hub may be asked.
        revision: A branch, tag or commit on the hub; None for ``main``.

    Raises:
        UserError: they are not found; the message says where they were looked for.
    """
    if Path(id).is_dir():
        paths = {name: Path(id) / name for name in (CONFIG, GENERATION, PROCESSOR, INDEX)}
        return _read(id, id, paths)
    cached = _from_hub(id, revision, offline=True)
    if cached:
        return _read(id, "the cache of Hugging Face", cached)
    # A copy is of the main branch only.
    copy = resources.files(__package__).joinpath("configs", f"{id.replace('/', '--')}.json")
    if copy.is_file() and revision in (None, "main"):
        stored = json.loads(copy.read_text(encoding="utf-8"))
        return Files(id, f"a copy of {stored['source']}, {stored['date']}", stored["config"], copy=stored)
    asked = ""
    if online:
        asked = " and on the hub"
        found = _from_hub(id, revision, offline=False)
        if found:
            return _read(id, "the hub", found)
    at = f" revision={revision}" if revision else ""
    raise UserError(f"model.engine.model={id}{at}: no {CONFIG} found in the cache of Hugging Face{asked}")


def _from_hub(id: str, revision: str | None, offline: bool) -> dict[str, Path] | None:
    """Where the files lie after they were fetched from the hub, or in its cache; None where there is no such model."""
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import (
            HfHubHTTPError,
            HFValidationError,
            LocalEntryNotFoundError,
            OfflineModeIsEnabled,
        )
    except ImportError:
        return None
    found = {}
    for name in (CONFIG, GENERATION, PROCESSOR, INDEX):
        try:
            found[name] = Path(hf_hub_download(id, name, revision=revision, local_files_only=offline))
        except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError):
            if name == CONFIG:
                return None
    return found


def _read(id: str, source: str, paths: Mapping[str, Path]) -> Files:
    """The files, each of which but the config may be missing.

    Raises:
        UserError: one of them is not what its name says.
    """
    read: dict[str, Mapping[str, Any]] = {}
    for name, path in paths.items():
        try:
            value = read_json(path, BOUNDS)
        except MissingFileError:
            continue
        except FileError as error:
            raise UserError(str(error)) from None
        if not isinstance(value, dict):
            raise UserError(f"{path}: is no mapping")
        read[name] = value
    if CONFIG not in read:
        raise UserError(f"model.engine.model={id}: there is no {CONFIG}")
    generation, processor, index = (read.get(name, {}) for name in (GENERATION, PROCESSOR, INDEX))
    return Files(id, source, read[CONFIG], generation, processor, index, paths[CONFIG].parent)


@lru_cache(maxsize=64)
def known(id: str, revision: str | None = None) -> Model | None:
    """What can be told of a model without a network: its row, or a row made from its files; None if they are not here."""
    row = row_of(id)
    if row is not None:
        return row
    try:
        return model_from(files_of(id, online=False, revision=revision))
    except UserError:
        return None


def selectable(overrides: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What ``model=NAME`` can name beside files, with the section that it stands for.

    Args:
        overrides: Of the command line: ``model=hf`` is the model that ``model.engine.model`` names among them.

    Raises:
        UserError: that one's files are not found, or say too little.
    """
    found = {name: section_of(name, row) for name, row in rows().items()}
    found[HF] = {"name": "${.engine.model}", "engine": {"type": "vllm", "model": "???"}}
    ids = _values(overrides, "model.engine.model")
    if not ids or f"model={HF}" not in overrides:
        return found
    id = name = ids[-1]
    revisions = _values(overrides, "model.engine.revision")
    revision = revisions[-1] if revisions else None
    # Part of each episode's id: a folder may lie elsewhere.
    if Path(id).is_dir():
        name = Path(id).resolve().name
    model = row_of(id) or model_from(files_of(id, revision=revision))
    found[HF] = section_of(name, model)
    return found


def _values(overrides: Sequence[str], key: str) -> list[str]:
    """What the command line gives for a key, in its order."""
    found = [each.lstrip("+").partition("=") for each in overrides]
    return [value.strip("'\"") for name, _, value in found if name == key]


def check_name(section: Any) -> None:
    """Refuse another model under the name of a row, whose pixels, sampling and parser it would get.

    Args:
        section: The section ``model`` of a run, its types not checked yet.

    Raises:
        UserError: the section has the name of a row, but not its model, and no copy of it in a folder.
    """
    if not isinstance(section, dict):
        return
    name, engine = section.get("name"), section.get("engine")
    # A name that is no row's has no settings to give.
    if not isinstance(name, str) or name not in rows():
        return
    row = rows()[name]
    id = engine.get("model") if isinstance(engine, dict) else None
    if not isinstance(id, str) or id in (row.id, TINY):
        return
    # A copy of the row's model, or one that was tuned from it.
    if Path(id).is_dir() and files_of(id).architecture == row.family.architecture:
        return
    raise UserError(
        f"model={row.name} model.engine.model={id}: {row.name} is {row.id}, with settings for it; for another model use "
        f"model=hf model.engine.model={id}, or give it a name (model.name=...) if these settings are meant for it"
    )


def model_from(files: Files) -> Model:
    """A row for a model that has none.

    Raises:
        UserError: its config lacks the numbers that every language model has.
    """
    try:
        return _row(files)
    except (
        AttributeError,
        ArithmeticError,
        TypeError,
        ValueError,
    ) as error:  # numbers or lists that are something else
        raise UserError(f"{files.id}: its files do not say what those of other models do: {error}") from None


def _row(files: Files) -> Model:
    shape, text = shape_of(files), _text_config(files.config)
    family = family_of(files.architecture) or Family(
        "of no known family",
        files.architecture,
        Template("parts" if files.sees else "string", "unknown"),
        processor="transformers" if files.sees else "none",
    )
    context = min(CONTEXT, int(text.get("max_position_embeddings") or CONTEXT))
    sampling = {name: files.generation[name] for name in SAMPLED if files.generation.get(name) is not None}
    if not files.generation.get("do_sample", bool(sampling)):
        sampling = {"temperature": 0.0}
    thinks = family.thinking is not None and family.thinking.default != "off"
    sampling["max_tokens"] = context // 2 if thinks else min(4096, context // 4)
    return Model(
        files.id,
        files.id,
        family,
        license="unknown",
        total=_parameters(files),
        active=_parameters(files) * _active_share(files),
        shape=shape,
        gpus=1,
        engine={"max_model_len": context},
        thinking=family.thinking,
        sampling=sampling,
        verified=files.source,
    )


def shape_of(files: Files) -> Shape:
    """The numbers of a model on which its memory depends.

    Raises:
        UserError: the config lacks one that every language model has.
    """
    text = _text_config(files.config)
    try:
        layers, heads = int(text["num_hidden_layers"]), int(text["num_attention_heads"])
        head_dim = int(text.get("head_dim") or text["hidden_size"] // heads)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{files.id}: its {CONFIG} says nothing of {error}") from None
    # MLA, which caches a latent in place of keys and values.
    if text.get("kv_lora_rank"):
        latent = int(text["kv_lora_rank"]) + int(text.get("qk_rope_head_dim") or 0)
        return Shape(layers, heads, latent=latent)
    kinds: Sequence[str] = text.get("layer_types") or ()
    shared = int(text.get("num_kv_shared_layers") or 0)  # these use the cache of others
    own = kinds[: len(kinds) - shared]
    window = 0
    if "sliding_attention" in own:
        window = int(text.get("sliding_window") or 0)
    return Shape(
        layers - shared,
        heads,
        int(text.get("num_key_value_heads") or heads),
        head_dim,
        whole=own.count("full_attention") if own else None,
        whole_kv=text.get("num_global_key_value_heads"),
        whole_dim=text.get("global_head_dim"),
        window=window,
        state=round(own.count("linear_attention") * _state(text) / 2**20),
    )


def _state(text: Mapping[str, Any]) -> float:
    """Bytes of the state of one layer of linear attention (gated delta net), in float32, and of its convolution."""
    try:
        keys = text["linear_num_key_heads"] * text["linear_key_head_dim"]
        values = text["linear_num_value_heads"] * text["linear_value_head_dim"]
        return float(4 * values * text["linear_key_head_dim"] + 2 * 3 * (2 * keys + values))
    except KeyError:
        return 0.0


def _experts(text: Mapping[str, Any]) -> int:
    """The number of experts, which families name differently; 0 of a dense model."""
    for name in ("num_experts", "n_routed_experts", "num_local_experts"):
        number = text.get(name)
        if number:
            return int(number)
    return 0


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    # Families name it differently; where there is none, the whole config is the text's.
    for name in ("text_config", "llm_config", "language_config"):
        found = config.get(name)
        if found:
            return found if isinstance(found, Mapping) else config
    return config


def _parameters(files: Files) -> float:
    """Billions of parameters: of the files' index, else counted from the config, without the vision tower.

    Raises:
        UserError: the config lacks a number that this takes.
    """
    size = (files.index.get("metadata") or {}).get("total_size")
    if isinstance(size, int | float) and size > 0:
        return size / 2e9  # of two bytes each
    try:
        return _counted(files) / 1e9
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{files.id}: its {CONFIG} says nothing of {error}") from None


def _active_share(files: Files) -> float:
    """The share of the parameters that a token uses, which of experts are those that it is sent to; 1 if that is not known."""
    try:
        return _counted(files, active=True) / _counted(files)
    except (KeyError, TypeError, ValueError):
        return 1.0


def _counted(files: Files, active: bool = False) -> int:
    """Parameters by the numbers of a config; errors as of ``int`` and of mappings where it lacks one.

    Args:
        files: Of the model.
        active: Only those that a token uses.
    """
    text, shape = _text_config(files.config), shape_of(files)
    hidden = int(text["hidden_size"])
    # Queries and what leaves the attention have all heads; keys and values have those of the cache.
    kv_heads = shape.kv_heads or shape.heads
    attention = 2 * hidden * (shape.head_dim or 128) * (shape.heads + kv_heads)
    experts = _experts(text)
    if experts and active:
        experts = int(text.get("num_experts_per_tok") or experts)
    if experts:
        inner = experts * int(text.get("moe_intermediate_size") or text["intermediate_size"])
    else:
        inner = int(text["intermediate_size"])
    # Three matrices: gate, up and down.
    feed_forward = 3 * hidden * inner
    # The embedding of tokens, and the output's own where the two are not tied.
    tables = 1 if files.config.get("tie_word_embeddings") else 2
    embeddings = tables * int(text["vocab_size"]) * hidden
    return int(text["num_hidden_layers"]) * (attention + feed_forward) + embeddings
