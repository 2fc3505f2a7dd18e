"""Declared settings: what is accepted, what is refused and in which words, whoever declares them."""

import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pydantic
import pytest
from annotated_types import Ge, Gt, Interval, Le, Lt, MinLen, Unit
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.settings import (
    MOST_NAMES,
    MOST_SHOWN,
    Count,
    Distinct,
    SettingError,
    Several,
    Share,
    check_arguments,
    check_instance,
    check_keys,
    check_values,
    describe,
    schema_of,
    settings_of,
    shown,
)
from tests.golden import check_golden

Color = Literal["red", "green", "blue"]


class Handle:
    """A class that no configuration can hold."""


@dataclass(frozen=True)
class Declared:
    device: int = -1
    pegs: tuple[int, ...] = (4,)
    rounds: Count = 5
    share: Share = 0.5
    scale: Annotated[int, Interval(ge=1, le=4)] = 1
    delay: Annotated[float, Ge(0), Unit("seconds")] = 0.0
    colors: Color | Several[Color] = "red"
    limit: Annotated[int, pydantic.Field(ge=3)] | None = None
    table: Mapping[str, Any] | None = None
    loud: bool = False
    handle: Handle | None = None
    hook: Callable[[], int] | None = None
    names: Sequence[str] = field(default_factory=lambda: ["a"])
    below: Annotated[float, Gt(0), Lt(1)] = 0.5
    pair: tuple[str, ...] | str | int = 1


class Nested(pydantic.BaseModel):
    size: int


KINDS = {name: setting.kind for name, setting in settings_of(Declared).items()}


@pytest.mark.parametrize(
    "values",
    [
        {"device": -1, "rounds": 1, "share": 1, "scale": 4, "delay": 0, "limit": 3},
        {"colors": "green"},
        {"colors": ["green", "red"], "pegs": [], "names": []},
        {"limit": None, "table": {"any": ["thing", {"at": 1.5}]}, "loud": True},
        {"handle": 5},  # is left to the class
    ],
)
def test_what_is_declared_is_accepted_and_single_values_stay_as_they_were_written(values):
    read = check_values("suite", KINDS, values)
    assert read.keys() == values.keys()
    assert [(type(read[key]), read[key]) for key in values if not isinstance(values[key], list)] == [
        (type(value), value) for value in values.values() if not isinstance(value, list)
    ]


def test_lists_become_what_the_class_declares():
    assert check_values("suite", KINDS, {"pegs": [1, 2]}) == {"pegs": (1, 2)}


REFUSED = [
    ("pegs", [5, ["a"]]),
    ("device", ["-1", True, None, 1.5]),
    ("rounds", [0, 1.0]),
    ("share", [1.5, -0.1, True, float("nan")]),
    ("scale", [0, 5]),
    ("delay", [float("inf"), -1]),
    ("limit", [2]),
    ("loud", [1, "yes"]),
    ("table", [[1], "x" * 10_000]),
    ("colors", ["gren", ["red", "gren", "bluee"], [], ["red", "red", "blue", "blue"], {"red": [None, True]}]),
    ("names", ["abc", ["\udc80"], "x" * 10_000, [1, "b"], Handle]),
    ("below", [1, 0, -5.5]),
    ("pair", [["a", 1], 1.5]),
]
ACCEPTED = {"scale": [1, 4], "limit": [3], "below": [0.999], "pair": ["a", 1], "hook": [int]}
KINDS_IN_WORDS = [
    *(Any, None, int, str | None, Handle, dict, Mapping[str, int], tuple[int, ...], list[str], Color, Literal["one"]),
    *(
        Literal["a", 1],
        int | Several[int],
        Annotated[Sequence[int], Distinct()],
        Annotated[str, MinLen(1)],
        Several[Color],
    ),
    *(Annotated[int, Gt(0), Lt(9), Unit("s")], Annotated[int, Le(3)], Annotated[int, Interval(gt=1, le=4)], "odd"),
]


class Plain:
    def __init__(self, sampling, context: Count, *, batch: Count = 8):
        pass


def test_what_is_refused_accepted_and_declared_is_said_in_these_words():
    parts = []
    for key, values in REFUSED:
        for value in values:
            with pytest.raises(SettingError) as refused:
                check_values("suite", KINDS, {"loud": True, key: value})
            parts.append(str(refused.value))
    parts += [
        "",
        "# Accepted",
        *(str(check_values("", KINDS, {key: each})) for key, of in ACCEPTED.items() for each in of),
    ]
    many = [f"field_{number:02}" for number in range(MOST_NAMES + 30)]
    unknown = [
        ("", "rounds", "round"),
        ("suite", ["b", "a"], [1, None]),
        ("e", many, "f"),
        ("e", many[:MOST_NAMES], "?"),
    ]
    for section, known, keys in [*unknown, ("model.vllm", [*many, "quantization"], ["quantisation"])]:
        with pytest.raises(SettingError) as refused:
            check_keys(
                section, [known] if isinstance(known, str) else known, keys if isinstance(keys, list) else [keys]
            )
        parts += ["", str(refused.value)]
    parts += ["", "# Arguments"]
    for values, given_before in (
        ({"sampling": 1}, ()),
        ({"context": 0}, ["sampling"]),
        ({"sampling": 1, "bach": 2}, ()),
    ):
        with pytest.raises(SettingError) as refused:
            check_arguments("model", Plain, values, given_before)
        parts.append(str(refused.value))
    parts.append(str(check_arguments("model", Plain, {"context": 1, "batch": 2}, ["sampling"])))
    for cls in (Plain, Declared):
        parts += [f"{name}: {each.required} {describe(each.kind)}" for name, each in settings_of(cls).items()]
    parts += ["", "# Kinds", *map(describe, KINDS_IN_WORDS)]
    values = [None, True, 1.0, "a", [None, {"b": False, 2: ["c"]}], ("x" * MOST_SHOWN,), "x" * MOST_SHOWN, "x" * 201]
    parts += ["", "# Values", *map(shown, values)]
    defaults = {"colors": "red", "handle": None}
    schema = schema_of(
        {"rounds": Count, "colors": Color, "nested": Nested, "handle": Handle, "hook": Callable[[], int]},
        {"rounds": "How many."},
        defaults,
    )
    parts += ["", "# Schemas", json.dumps(schema, indent=1), json.dumps(schema_of({"handle": Handle}, {}, {}))]
    check_golden("envs_settings", "\n".join(parts))


@pytest.mark.slow
@settings(max_examples=40)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
def test_no_value_of_a_configuration_gives_anything_but_one_line(value):
    for key in KINDS:
        try:
            check_values("suite", KINDS, {key: value})
        except SettingError as error:
            assert str(error).startswith(("suite.", "suite:"))


def test_an_instance_built_by_hand_is_checked_too():
    check_instance("suite", Declared())
    check_instance("suite", Declared(pegs=(1, 2), colors=("red",), hook=int))
    with pytest.raises(SettingError, match=r"suite\.rounds=0"):
        check_instance("suite", Declared(rounds=0))


def test_defaults_and_types_come_from_the_signature_of_any_class():
    plain = settings_of(Plain)
    assert plain["batch"].default == 8 and plain["batch"].kind == Count and plain["sampling"].kind is Any
    assert settings_of(Declared)["names"].default == ["a"]
    assert settings_of(Declared)["device"].default == dataclasses.fields(Declared)[0].default == -1
    assert plain["context"].default is inspect.Parameter.empty
