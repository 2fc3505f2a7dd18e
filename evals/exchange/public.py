"""What of a configuration and of error messages may leave the machine: names and numbers, no keys, hosts or paths."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

OF_ENGINES = (
    *("type", "model", "revision", "dtype", "quantization", "max_model_len", "tensor_parallel_size"),
    *("chat_template_kwargs", "reasoning_effort", "thinking", "prompt_price", "completion_price"),
)
"""Settings of an engine that say which model answered and how it was asked; all others stay here."""
OF_MODELS = ("name", "system_role")

_SECRET_NAME = re.compile(r"key|secret|passw|header|credential|token$", re.IGNORECASE)
_PLACE = re.compile(r"^(?:[/~\\]|[A-Za-z]:\\|env:|sealed:)|://")
"""A path of this machine, an address, or a reference to a secret."""
_ADDRESS = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]+"  # a URL
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"  # an IPv4 address
    r"|\[[0-9A-Fa-f:]{3,}\](?::\d+)?"  # an IPv6 address
    r"|\b[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*:\d{2,5}\b"  # HOST:PORT
    r"|(?<![\w.])~?(?:/[\w.@+-]+){2,}/?"  # a path
)
HIDDEN = "<address>"


def public_settings(section: Any, private: Collection[str] = ()) -> Any:
    """A section of a configuration without what may be secret, or means nothing elsewhere.

    >>> public_settings({"type": "kumo", "source": "/home/me/kumo", "domains": ["medical"]})
    {'type': 'kumo', 'domains': ['medical']}

    A list of which nothing is left is left out as a whole: no setting takes an empty one in its place.

    >>> public_settings({"type": "kumo", "domains": ["/home/me/mine.yaml"]})
    {'type': 'kumo'}

    Args:
        section: Plain values.
        private: Names that are left out as well, such as a suite's ``given_again``.
    """
    if isinstance(section, Mapping):
        kept = {name: value for name, value in section.items() if not _is_private(name, private)}
        # An address or path means nothing elsewhere.
        public = {name: public_settings(value, private) for name, value in kept.items() if not _is_place(value)}
        return {name: value for name, value in public.items() if not _is_emptied(kept[name], value)}
    if isinstance(section, list | tuple):
        return [public_settings(each, private) for each in section if not _is_place(each)]
    return section


def _is_emptied(value: Any, public: Any) -> bool:
    """Whether nothing is left of a list that held something."""
    return isinstance(value, list | tuple) and len(value) > 0 and public == []


def _is_private(name: Any, private: Collection[str]) -> bool:
    return name in private or _SECRET_NAME.search(str(name)) is not None


def left_out(section: Any, public: Any, place: str) -> list[str]:
    """The keys of a section that ``public_settings`` has left out, or whose lists it has shortened, by their path."""
    found = []
    if isinstance(section, Mapping) and isinstance(public, Mapping):
        for name, value in section.items():
            here = f"{place}.{name}"
            found += left_out(value, public[name], here) if name in public else [here]
    if isinstance(section, list | tuple) and isinstance(public, list) and len(section) != len(public):
        found.append(place)
    return found


def public_model(config: Mapping[str, Any]) -> dict[str, Any]:
    """The model's section: its name, which weights, and how it was sampled."""
    model = config.get("model")
    if not isinstance(model, Mapping):
        return {}
    found = {name: model[name] for name in OF_MODELS if model.get(name) is not None}
    engine = model.get("engine")
    if isinstance(engine, Mapping):
        found["engine"] = _public_engine(engine)
    sampling = model.get("sampling")
    if isinstance(sampling, Mapping):
        found["sampling"] = public_settings(sampling)
    return found


def _public_engine(engine: Mapping[str, Any]) -> Any:
    chosen = {name: engine[name] for name in OF_ENGINES if engine.get(name) is not None}
    weights = chosen.pop("model", None)
    found = public_settings(chosen)
    if isinstance(weights, str):
        # a folder of this machine tells no more than its last name
        found["model"] = PurePath(weights).name if _is_place(weights) else weights
    return found


def places_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Hosts that the model's engine and the cluster are configured with: an error may name them without a port."""
    texts: list[str] = []
    model = config.get("model")
    if isinstance(model, Mapping):
        texts += _texts(model.get("engine"))
    texts += _texts(config.get("cluster"))
    addresses = filter(_ADDRESS.fullmatch, texts)
    found = set()
    for address in addresses:
        with contextlib.suppress(ValueError):  # brackets around what is no address
            url = address if "://" in address else f"//{address}"
            found.add(urlsplit(url).hostname or address)
    # The longest first, so that a name within another one leaves nothing of it.
    return tuple(sorted(found, key=lambda place: (-len(place), place)))


def _texts(section: object) -> list[str]:
    """The texts that a section of a configuration holds; none where it is no section."""
    if not isinstance(section, Mapping):
        return []
    return [value for value in section.values() if isinstance(value, str)]


def public_error(text: str, places: Sequence[str] = ()) -> str:
    """An error's text without addresses and paths.

    >>> public_error("ConnectError: http://10.0.0.7:8000/v1 refused")
    'ConnectError: <address> refused'

    Args:
        text: As stored.
        places: Of ``places_of``.
    """
    found = _ADDRESS.sub(HIDDEN, text)
    for place in places:
        # Hosts are the same in any case, and errors may name them in another one.
        found = re.sub(re.escape(place), HIDDEN, found, flags=re.IGNORECASE)
    return found


def _is_place(value: object) -> bool:
    return isinstance(value, str) and _PLACE.search(value) is not None
