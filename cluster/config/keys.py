"""All keys that a configuration may set, given what its groups select: for completion, help and JSON schemas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, get_args, get_origin

from cluster.config.compose import ROOT_KINDS
from cluster.config.helps import helps_of, settable
from cluster.config.model import ReplicaNeeds
from cluster.config.registry import FOLDERS, TYPE, class_of, plain_default, stated_keys
from cluster.config.settings import ClusterSettings
from cluster.engines.base import Sampling
from cluster.models.table import HF, rows
from envs.settings import Setting, schema_of

GROUPS = ("suite", "model", "cluster", "tracker")
"""What is selected by name."""


@dataclass(frozen=True)
class Key:
    """One key that may be set."""

    setting: Setting
    help: str

    @property
    def choices(self) -> list[str]:
        """The words that its type accepts."""
        return _choices(self.setting.kind)


def _choices(kind: Any) -> list[str]:
    if kind is bool:
        return ["false", "true"]
    if get_origin(kind) is not None and not isinstance(kind, str):
        words = [word for word in get_args(kind) if isinstance(word, str)]
        for inner in get_args(kind):
            if not isinstance(inner, str):
                words += _choices(inner)
        return words
    return []


def options_of(group: str) -> set[str]:
    """The files of ``conf`` that a group can select; of models those of the table too."""
    return _files_of(group) | (set(rows()) if group == "model" else set())


def _files_of(group: str) -> set[str]:
    files = resources.files("conf").joinpath(group).iterdir()
    return {file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")}


def keys_of(group: str, name: str) -> dict[str, dict[str, Key]]:
    """The keys below a group, by section: ``{"suite": {"repeats": ...}}``, ``{"model.engine": ..., ...}``.

    Args:
        group: One of ``GROUPS``.
        name: What is selected, as in ``suite=NAME``.

    Raises:
        UserError: there is no such thing, or it cannot be imported.
    """
    if group == "cluster":
        return {"cluster": _keys(ClusterSettings)}
    section = next(section for section, folder in FOLDERS.items() if folder == group)
    kind = _registered_name(group, name)
    found: dict[str, dict[str, Key]] = {}
    if kind:
        found[section] = _keys(class_of(section, {TYPE: kind}))
    if group != "model":
        return found
    sampling = _keys(Sampling)
    if kind:
        # An engine may have some of its own.
        further = stated_keys(class_of(section, {TYPE: kind}), "sampling_keys")
        for key, kind_of in further.items():
            sampling[key] = Key(Setting(kind_of, None), "")
    found["model.sampling"] = sampling
    found["model.replica"] = _keys(ReplicaNeeds)
    return found


def _keys(cls: type) -> dict[str, Key]:
    helps = helps_of(cls)
    return {key: Key(setting, helps.get(key, "")) for key, setting in settable(cls).items()}


def _registered_name(group: str, name: str) -> str:
    """What a file of ``conf`` is about: its ``type``; without a file, the name itself. Empty for built-in players."""
    if group == "model" and (name in rows() or name == HF):
        return "vllm"
    if name not in _files_of(group):
        return name
    text = resources.files("conf").joinpath(group, f"{name}.yaml").read_text(encoding="utf-8")
    found = re.search(r"^ *type: (\w+)", text, re.MULTILINE)
    return found[1] if found else ""


def schema(group: str, name: str) -> dict[str, Any]:
    """A JSON schema for a file of ``conf/GROUP`` that is about the same as ``GROUP=NAME``.

    Raises:
        UserError: see ``keys_of``.
    """
    found = {section: _schema_of(keys) for section, keys in keys_of(group, name).items()}
    if group != "model":
        inner = found.get(group, {"type": "null"})
        if group != "cluster" and found:
            inner["properties"][TYPE] = {"const": _registered_name(group, name)}
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **inner}
    properties: dict[str, Any] = {section.partition(".")[2]: inner for section, inner in found.items()}
    if "engine" in properties:
        properties["engine"]["properties"][TYPE] = {"const": _registered_name(group, name)}
    properties |= {"name": {"type": "string"}, "chat_template_kwargs": {"type": "object"}}
    properties["system_role"] = {"enum": ["auto", "system", "user"]}
    properties["decoding"] = schema_of({"decoding": ROOT_KINDS["decoding"]}, {}, {})["properties"]["decoding"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "required": ["name"],
        "additionalProperties": False,
    }


def _schema_of(keys: Mapping[str, Key]) -> dict[str, Any]:
    defaults = {name: plain_default(key.setting) for name, key in keys.items() if not key.setting.required}
    kinds = {name: key.setting.kind for name, key in keys.items()}
    return schema_of(kinds, {name: key.help for name, key in keys.items()}, defaults)
