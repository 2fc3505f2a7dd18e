"""Keeps secrets out of configurations, which are stored with every run: keys and the like come from the environment.

No message here repeats a value that may be a secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

FROM_ENVIRONMENT = "env:"
"""What a header's value begins with that is read from the environment."""

EPISODE, TURN = "raycade:episode", "raycade:turn"
OF_TURN = (EPISODE, TURN)
"""Values of headers that stand for the episode's id and the turn's number, from 0."""

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_KEY = re.compile(
    r"\b(?:sk|pk|rk|gsk|csk|xai|nvapi|pplx|r8|tgp)[-_](?=[\w-]*\d)[\w-]{16,}|\bhf_\w{16,}|\bwandb_v1_\w{16,}"
    r"|\bAIza[\w-]{20,}|\beyJ[\w-]{20,}|\bBearer\s+\S{8,}",
    re.I,
)
"""The forms of keys that providers give out, and of tokens in general."""
_SECRET_VARIABLE = re.compile(r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|BEARER_TOKEN_BEDROCK)$", re.I)
"""What variables of the environment are called that hold secrets: ``WANDB_API_KEY``, ``HF_TOKEN``, Bedrock's API key."""
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password|credential", re.I)
_SECRET_FIELD = re.compile(r"api[-_]?key|secret|password|authorization|access[-_]?token|credential", re.I)
_OWN_HEADERS = frozenset(
    {"accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"}
)


def check_no_secrets(settings: Mapping[str, Any]) -> None:
    """See that an engine's settings hold no secret, before they are stored.

    Raises:
        ValueError: they do; the message names the setting and never its value.
    """
    variable = check_variable(settings.get("api_key_env", "OPENAI_API_KEY"))
    check_base_url(settings.get("base_url"))
    check_headers(settings.get("headers") or {})
    keys = [os.environ.get(variable, "").strip()]
    for name, value in settings.items():
        if _holds_key(value, keys):
            raise ValueError(
                f"model.engine.{name} holds what looks like an API key, which would be stored with the run: put the "
                "key into the environment (model.engine.api_key_env names the variable)"
            )
    for name in _fields(settings.get("extra_body") or {}):
        if _SECRET_FIELD.search(name):
            raise ValueError(
                "model.engine.extra_body has a field for a secret, which would be stored with the run: send it as a "
                "header with a value from the environment (model.engine.headers)"
            )


def check_no_keys(config: Mapping[str, Any]) -> None:
    """See that no setting of a whole configuration holds a key, be it by its form or one of the environment's.

    Raises:
        ValueError: one does; the message names the setting and never its value.
    """
    keys = [value.strip() for name, value in os.environ.items() if _SECRET_VARIABLE.search(name)]
    _check_texts("", config, keys)


def without_keys(text: str) -> str:
    """A text, such as an error that repeats the command line, without what looks like a key or is one of the environment's."""
    for name, value in os.environ.items():
        key = value.strip()
        if len(key) >= 8 and _SECRET_VARIABLE.search(name):
            text = text.replace(key, "[a key]")
    return _KEY.sub("[a key]", text)


def _check_texts(where: str, value: Any, keys: Collection[str]) -> None:
    """See that a setting, and what is within it, holds no key; a name that holds one is not repeated either."""
    names_sound = isinstance(value, Mapping) and not any(_holds_key(name, keys) for name in value)
    if names_sound:
        for name, inner in value.items():
            _check_texts(f"{where}.{name}" if where else str(name), inner, keys)
    elif _holds_key(value, keys):
        raise ValueError(
            f"{where or 'a setting'} holds what looks like an API key, which would be stored with the run: put the key into "
            "the environment (model.engine.api_key_env and model.engine.headers name its variables)"
        )


def _holds_key(value: Any, keys: Collection[str]) -> bool:
    """Whether a text within ``value`` has the form of a key, or is one of ``keys``, which have eight characters at least."""
    known = [key for key in keys if len(key) >= 8]
    texts = list(_texts(value))
    for text in texts:
        if _KEY.search(text):
            return True
        if any(key in text for key in known):
            return True
    return False


def check_variable(name: Any) -> str:
    """The name of an environment variable that holds a key.

    Raises:
        ValueError: it is none, and may be the key itself.
    """
    if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
        raise ValueError(
            "model.engine.api_key_env must name the environment variable that holds the key, in capital letters "
            "(OPENAI_API_KEY, say); its present value is not repeated here, as it may be the key itself"
        )
    return name


def check_base_url(url: Any) -> str | None:
    """An endpoint's address, without a slash at its end.

    Raises:
        ValueError: it is not a plain http(s) address: user name, password and query are refused, they may be secrets.
    """
    if url is None:
        return None
    try:
        is_plain = _is_plain_address(url)
    except (TypeError, ValueError, AttributeError):
        is_plain = False
    if not is_plain:
        raise ValueError(
            "model.engine.base_url must be a plain address, http(s)://HOST[:PORT][/PATH] with a port from 1 to 65535, without "
            "user name, password, query or fragment: it is stored with the run (secrets: model.engine.api_key_env and "
            "model.engine.headers)"
        )
    return str(url).rstrip("/")


def _is_plain_address(url: Any) -> bool:
    """Whether it is http(s)://HOST[:PORT][/PATH]; whatever ``urlsplit`` raises means that it is not."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return False
    # Nobody can listen at port 0; to look at another one that is none raises a ValueError.
    if parts.port == 0:
        return False
    # User name and password would stand before an @.
    if not re.fullmatch(r"[\w.:\[\]-]+", parts.netloc):
        return False
    # Neither query nor fragment, and only signs that can be sent.
    return re.search(r"[?#\\\s]|[^ -~]", url) is None


def check_headers(headers: Any) -> None:
    """See that headers can be sent and hold no secret but by the name of an environment variable.

    Raises:
        ValueError: one cannot, or does.
    """
    if not isinstance(headers, Mapping):
        raise ValueError("model.engine.headers must be a mapping from names to texts")
    for number, (name, value) in enumerate(headers.items()):
        # A name that is none may be a key in the wrong place, so it is not repeated.
        if not _can_be_name(name):
            raise ValueError(f"model.engine.headers: header {number + 1} has a name that cannot be sent")
        if name.lower() in _OWN_HEADERS:
            raise ValueError(f"model.engine.headers: {name} is set by the engine itself")
        _check_value(name, value)


def _can_be_name(name: Any) -> bool:
    if not isinstance(name, str) or not _HEADER.fullmatch(name):
        return False
    return _KEY.search(name) is None


def _check_value(name: str, value: Any) -> None:
    """See that a header's value is a name that stands for something else, or may be stored.

    Raises:
        ValueError: it is neither.
    """
    if not isinstance(value, str) or not re.fullmatch(r"[ -~]*", value):
        raise ValueError(f"model.engine.headers: the value of {name} must be plain text in one line")
    # It stands for the episode or the turn.
    if value.startswith("raycade:") and value not in OF_TURN:
        raise ValueError(f"model.engine.headers: {name} must be {EPISODE} or {TURN}, if it begins with raycade:")
    # It is read from the environment, so it may be a secret.
    if value.startswith(FROM_ENVIRONMENT):
        variable = value.removeprefix(FROM_ENVIRONMENT)
        if not _VARIABLE.fullmatch(variable):
            raise ValueError(
                f"model.engine.headers: {name} must be {FROM_ENVIRONMENT}NAME, the name in capital letters"
            )
        return
    may_be_secret = _SECRET_HEADER.search(name) or _KEY.search(value)
    if may_be_secret:
        raise ValueError(
            f"model.engine.headers: the value of {name} may be a secret and would be stored with the run: write "
            f"{FROM_ENVIRONMENT}NAME, the name of an environment variable that holds it"
        )


def read_headers(headers: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Headers as they are sent, and those of their values that are secret.

    Raises:
        ValueError: a variable is not set, or holds what no header can.
    """
    sent, secrets = dict(headers), []
    for name, value in headers.items():
        if value.startswith(FROM_ENVIRONMENT):
            sent[name] = _read(value.removeprefix(FROM_ENVIRONMENT), r"[ -~]+", f"the header {name}")
            secrets.append(sent[name])
    return sent, secrets


def read_key(variable: str, needed: bool) -> str:
    """The key in an environment variable, or nothing where it is not ``needed``.

    Raises:
        ValueError: it is needed and not there, or can be no key; the message shows nothing of it.
    """
    if not needed and not os.environ.get(variable, "").strip():
        return ""
    return _read(variable, r"[!-~]+", "model.engine.api_key_env; a server of your own needs model.engine.base_url")


def _read(variable: str, form: str, what_for: str) -> str:
    value = os.environ.get(variable, "").strip()
    if not value:
        raise ValueError(f"{variable} is not set where the engine runs: export it before Ray starts there ({what_for})")
    if not re.fullmatch(form, value):
        raise ValueError(f"{variable} cannot be sent: it has blanks or characters within that no key has ({what_for})")
    return value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield str(key)
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def _fields(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield str(key)
            yield from _fields(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _fields(each)
