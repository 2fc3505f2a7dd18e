"""The models of the papers: under which names they stand in tables, on hubs and in APIs, and how large they are."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources

import yaml


@dataclass(frozen=True)
class Model:
    """One model.

    Attributes:
        name: Short name, unique among all.
        parameters: In billions, experts included; None where no one has said.
        aliases: Other names: Hugging Face ids, API names. Case, punctuation and the owner before a slash do not count.
        rows: By suite, the spellings of the paper's rows.
    """

    name: str
    parameters: float | None
    aliases: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]


@functools.cache
def models() -> tuple[Model, ...]:
    """All models of the papers."""
    text = resources.files(__package__).joinpath("models.yaml").read_text(encoding="utf-8")
    return tuple(
        Model(
            entry["name"],
            entry.get("parameters"),
            tuple(entry.get("aliases", ())),
            {suite: tuple(rows) for suite, rows in entry["rows"].items()},
        )
        for entry in yaml.safe_load(text)
    )


def model_named(name: str) -> Model | None:
    """The model that a player's name, hub id or API name means; a dated API name means the undated model."""
    known = _by_key()
    return known.get(_key(name)) or known.get(_key(_DATE.sub("", name)))


def parameters_of(name: str) -> float | None:
    """Parameters in billions: of a known model, else as the name says them (``qwen3_vl_8b``); None where it does not."""
    model = model_named(name)
    if model is not None:
        return model.parameters
    sizes = _SIZE.findall(name.rpartition("/")[2].lower())
    return float(sizes[0].replace("_", ".")) if sizes else None


def nearest(parameters: float, among: Iterable[Model], count: int = 2) -> list[Model]:
    """The models closest in size, by the ratio of parameter counts."""
    sized = [(abs(math.log(model.parameters / parameters)), model) for model in among if model.parameters]
    return [model for _, model in sorted(sized, key=lambda pair: pair[0])[:count]]


_DATE = re.compile(r"[-_](\d{4}-?\d{2}-?\d{2}|\d{4})$")
_SIZE = re.compile(r"(?<![a-z0-9.])(0_\d|\d+(?:\.\d+)?)b(?![a-z0-9])")


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", name.rpartition("/")[2].lower())


@functools.cache
def _by_key() -> Mapping[str, Model]:
    return {_key(alias): model for model in models() for alias in (model.name, *model.aliases)}
