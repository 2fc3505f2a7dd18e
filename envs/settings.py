"""Declared settings: the arguments of a constructor with their types and bounds are all that has to be written down.

    @dataclass(frozen=True)
    class Hunt(Suite):
        rounds: Count = 5                                # an integer, from 1 up
        delay: Annotated[float, Ge(0), Unit("seconds")] = 0
        modes: Several[Literal["plain", "hints"]] = ("plain",)

Checks, error messages, reference pages and JSON schemas come from these declarations. They are made of ``typing`` and
``annotated_types``, as pydantic knows them; what pydantic cannot check (a callable, a class of one's own) is left alone.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Interval, Le, Lt, MinLen, Unit

from envs.suggest import did_you_mean

T = TypeVar("T")

MOST_NAMES = 40
"""Known keys that an error message lists."""

MOST_SHOWN = 200
"""Characters of a bad value that an error message quotes."""


class SettingError(ValueError):
    """A setting is unknown, missing or out of range; the message names the key, its value and what would be right."""


class Distinct:
    """Marks a list in which nothing may occur twice."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """How pydantic checks it."""
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(_distinct, handler(source))


def _distinct(items: Sequence[T]) -> Sequence[T]:
    twice = sorted({str(item) for item in items if list(items).count(item) > 1})
    if twice:
        raise ValueError(f"names {', '.join(twice)} twice")
    return items


Several = Annotated[Sequence[T], MinLen(1), Distinct()]
"""A list of one or more items, none of them twice."""
Count = Annotated[int, Ge(1)]
Index = Annotated[int, Ge(0)]
Positive = Annotated[float, Gt(0)]
NotNegative = Annotated[float, Ge(0)]
Share = Annotated[float, Interval(ge=0, le=1)]
Seconds = Annotated[float, Gt(0), Unit("seconds")]

_WORDS: Final[Mapping[Any, str]] = {
    Any: "anything",
    NoneType: "null",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
}
_BOUNDS: Final[Mapping[type, tuple[str, str]]] = {
    Ge: ("ge", "from {} up"),
    Gt: ("gt", "above {}"),
    Le: ("le", "at most {}"),
    Lt: ("lt", "below {}"),
}


# --- what is declared ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Setting:
    """One argument of a constructor."""

    kind: Any
    """Its declared type, with bounds."""
    default: Any
    """``inspect.Parameter.empty`` if it has none."""

    @property
    def required(self) -> bool:
        """Whether it has to be given."""
        return self.default is inspect.Parameter.empty


def settings_of(cls: Any) -> Mapping[str, Setting]:
    """The arguments of a class's constructor by name."""
    declaring = inspect.getattr_static(cls, "__init__")
    fields: tuple[dataclasses.Field[Any], ...] = ()
    if dataclasses.is_dataclass(cls):
        # The types of a dataclass's inherited fields are resolved where each base class stands.
        declaring = cls
        fields = dataclasses.fields(cls)
    try:
        hints = get_type_hints(declaring, include_extras=True)
    except NameError:  # types that are imported for type checkers only
        hints = {}
    # A field with a factory has a placeholder for its default in the signature.
    made = {field.name: field.default_factory() for field in fields if callable(field.default_factory)}
    settings = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        default = made.get(name, parameter.default)
        settings[name] = Setting(hints.get(name, Any), default)
    return settings


# --- checks ----------------------------------------------------------------------------------------------------------


def check_keys(section: str, known: Iterable[str], values: Iterable[object]) -> None:
    """Check that all keys are known; values of unknown keys may be secrets and are not quoted.

    Raises:
        SettingError: one is not; what was probably meant comes first.
    """
    known = sorted(known)
    unknown = sorted(set(map(str, values)) - set(known))
    if not unknown:
        return
    where = f"{section}: unknown key" if section else "unknown key"
    near = "".join(did_you_mean(key, known) for key in unknown) or "."
    more = f" and {len(known) - MOST_NAMES} more" if len(known) > MOST_NAMES else ""
    raise SettingError(f"{where} {', '.join(unknown)}{near} There are {', '.join(known[:MOST_NAMES])}{more}")


def check_values(section: str, kinds: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Check the values of a configuration against declared types; keys without a type accept anything.

    Args:
        section: Where the keys stand, such as ``model.engine``.
        kinds: Types by key.
        values: As read from YAML or JSON. Tuples count as lists.

    Returns:
        The values, with lists and mappings as the types declare them (a tuple, say). Single values stay as they were
        written, since hashes of settings depend on whether it was 1 or 1.0.

    Raises:
        SettingError: a value has another type or is out of bounds.
    """
    from pydantic import ValidationError

    declared = {key: kinds[key] for key in values if key in kinds}
    checkable, adapter = _adapter_of(declared)
    # As JSON, because there pydantic is strict about single values and takes a list for a tuple.
    text = json.dumps(
        {key: values[key] for key in checkable}, default=lambda value: {"object of": type(value).__name__}
    )
    try:
        read = adapter.validate_json(text)
    except ValidationError as error:
        raise SettingError(_message(section, declared, values, error.errors(include_url=False))) from None
    several = {key: value for key, value in read.items() if isinstance(values[key], list | tuple | Mapping)}
    return {**values, **several}


def _adapter_of(kinds: Mapping[str, Any]) -> tuple[tuple[str, ...], Any]:
    """As ``_adapter``, which remembers what it has built for these types."""
    items = tuple(kinds.items())
    try:
        return _adapter(items)
    except TypeError:  # what a plugin has annotated, a dictionary for instance, cannot be a key
        return _adapter.__wrapped__(items)


@functools.lru_cache(maxsize=256)
def _adapter(kinds: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, ...], Any]:
    """The keys of these types that pydantic can check, and the object that does it: it takes milliseconds to build."""
    from pydantic import ConfigDict, TypeAdapter, with_config
    from pydantic.errors import PydanticUserError
    from typing_extensions import TypedDict

    config = ConfigDict(strict=True, allow_inf_nan=False)
    fields = with_config(config)(TypedDict("fields", dict(kinds)))  # type: ignore[misc,operator]
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(fields)
        adapter.json_schema()  # which a callable has not: no value in JSON is one
        return tuple(key for key, _ in kinds), adapter
    except PydanticUserError:  # one is a callable, or a class that pydantic has no rule for
        if len(kinds) == 1:
            return (), TypeAdapter(dict[str, Any])
        return _adapter(tuple((key, kind) for key, kind in kinds if _adapter_of({key: kind})[0]))


def check_arguments(section: str, cls: Any, values: Mapping[str, Any], given: Iterable[str] = ()) -> dict[str, Any]:
    """Check that values can be arguments of a class's constructor: all known, none missing, each of its declared type.

    Args:
        section: Where the keys stand, such as ``suite``.
        cls: Whose constructor.
        values: As of ``check_values``.
        given: Arguments that come from elsewhere.

    Returns:
        As ``check_values``.

    Raises:
        SettingError: they cannot.
    """
    settings = {name: setting for name, setting in settings_of(cls).items() if name not in given}
    check_keys(section, settings, values)
    for name, setting in settings.items():
        if setting.required and name not in values:
            raise SettingError(f"{section}.{name}: is missing")
    return check_values(section, {name: setting.kind for name, setting in settings.items()}, values)


def check_instance(section: str, instance: Any) -> None:
    """Check the fields of a dataclass that was built by hand, as ``__post_init__`` may do.

    Raises:
        SettingError: see ``check_values``.
    """
    settings = settings_of(instance.__class__)
    kinds = {name: setting.kind for name, setting in settings.items()}
    check_values(section, kinds, {name: getattr(instance, name) for name in settings})


def _message(section: str, kinds: Mapping[str, Any], values: Mapping[str, Any], errors: Sequence[Any]) -> str:
    """One line about the first key that is wrong."""
    places = errors[0]["loc"]
    if not places:
        return f"{section}: holds text that is not valid Unicode"
    key = places[0]
    own: list[str] = []
    bad_words: list[str] = []
    of_key = [error for error in errors if error["loc"][0] == key]
    for error in of_key:
        match error["type"]:
            case "value_error":
                own.append(str(error["ctx"]["error"]))
            case "literal_error" if isinstance(error["input"], str):
                bad_words.append(error["input"])
    # What a check of our own says (as ``Distinct`` does) stands in place of the declared type.
    what = own[0] if own else f"must be {describe(kinds[key])}"
    near = ""
    if bad_words:
        near = did_you_mean(bad_words[0], _literals(kinds[key]))
    path = f"{section}.{key}" if section else key
    return f"{path}={shown(values[key])}: {what}{near}"


def shown(value: Any) -> str:
    """A value as it is written on the command line, cut at ``MOST_SHOWN`` characters."""
    # As YAML writes them, and Python does not.
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    text = _written(value)
    if len(text) > MOST_SHOWN:
        return f"{text[:MOST_SHOWN]}..."
    return text


def _written(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, Mapping):
        pairs = [f"{key}: {shown(each)}" for key, each in value.items()]
        return "{" + ", ".join(pairs) + "}"
    return str(value)


def _literals(kind: Any) -> list[str]:
    """All words that a type accepts."""
    if get_origin(kind) is Literal:
        return [word for word in get_args(kind) if isinstance(word, str)]
    return [word for each in get_args(kind) for word in _literals(each)]


# --- in words and as a schema ----------------------------------------------------------------------------------------


def _one_of(choices: Sequence[Any]) -> str:
    words = ", ".join(map(str, choices))
    if len(choices) > 1:
        return f"one of {words}"
    return words


def describe(kind: Any) -> str:
    """A declared type in words: ``an integer, from 1 up``."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _described(arguments[0], list(_flat(arguments[1:])))
    if origin in (Union, UnionType):
        return _alternatives(arguments)
    if origin is Literal:
        return _one_of(arguments)
    if origin in (tuple, list, Sequence):
        return f"a list, each {describe(arguments[0])}"
    # A mapping may be declared with the types of its keys and values, or without.
    if origin in (dict, Mapping) or kind in (dict, Mapping):
        return "a mapping"
    return _WORDS.get(kind, str(kind))


def _alternatives(kinds: Sequence[Any]) -> str:
    """Several types in words; where one is an item and another a list of such, the item is described once."""
    words = [describe(each) for each in kinds]
    for item in words:
        words = [text.replace(f"list, each {item}", "list of these") for text in words]
    return ", or ".join(words)


def _bounds_in_words(marks: Sequence[Any]) -> list[str]:
    bounds: dict[str, Any] = {}
    for mark in marks:
        if type(mark) in _BOUNDS:
            name, _ = _BOUNDS[type(mark)]
            bounds[name] = mark
    # The usual pair has words of its own.
    if bounds.keys() == {"ge", "le"}:
        return [f"from {bounds['ge'].ge} to {bounds['le'].le}"]
    said = []
    for name, text in _BOUNDS.values():
        if name in bounds:
            limit = getattr(bounds[name], name)
            said.append(text.format(limit))
    return said


def _described(base: Any, marks: Sequence[Any]) -> str:
    words = describe(base)
    said = _bounds_in_words(marks)
    # Units and lengths go into the words of the type; bounds stand after them.
    for mark in marks:
        if isinstance(mark, Unit):
            words += f" of {mark.unit}"
        if isinstance(mark, MinLen):
            words = words.replace("a ", "a non-empty ", 1)
        if isinstance(mark, Distinct):
            said.append("none twice")
    if not said:
        return words
    return f"{words}, {' and '.join(said)}"


def _flat(marks: Iterable[Any]) -> Iterable[Any]:
    """Bounds one by one: an ``Interval`` holds two."""
    for mark in marks:
        if isinstance(mark, Interval):
            yield from mark
        elif isinstance(getattr(mark, "metadata", None), list):  # pydantic's own Field(ge=1)
            yield from mark.metadata
        else:
            yield mark


def schema_of(kinds: Mapping[str, Any], helps: Mapping[str, str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON schema of an object with these keys.

    Args:
        kinds: Types by key.
        helps: Descriptions by key.
        defaults: Default values; keys without one are required.
    """
    checkable, adapter = _adapter_of(kinds)
    schema: dict[str, Any] = adapter.json_schema() if checkable else {}
    known = schema.get("properties", {})
    properties = {}
    for key in kinds:
        properties[key] = {**known.get(key, {}), "description": helps.get(key, "")}
    for key, default in defaults.items():
        properties[key]["default"] = default
    whole = {
        "type": "object",
        "properties": properties,
        "required": [key for key in kinds if key not in defaults],
        "additionalProperties": False,
    }
    if "$defs" in schema:
        whole["$defs"] = schema["$defs"]
    return whole
