"""Declared settings: what is accepted, what is refused and in which words, whoever declares them."""

import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pydantic
import pytest
from annotated_types import Ge, Interval, Unit
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
    check_instance,
    check_keys,
    check_values,
    describe,
    schema_of,
    settings_of,
    shown,
)

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


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("pegs", 5, "suite.pegs=5: must be a list, each an integer"),
        ("pegs", ["a"], "suite.pegs=[a]: must be a list, each an integer"),
        ("device", "-1", "suite.device=-1: must be an integer"),
        ("device", True, "suite.device=true: must be an integer"),
        ("rounds", 0, "suite.rounds=0: must be an integer, from 1 up"),
        ("rounds", 1.0, "suite.rounds=1.0: must be an integer, from 1 up"),
        ("share", 1.5, "suite.share=1.5: must be a number, from 0 to 1"),
        ("share", True, "suite.share=true: must be a number, from 0 to 1"),
        ("share", float("nan"), "suite.share=nan: must be a number, from 0 to 1"),
        ("delay", float("inf"), "suite.delay=inf: must be a number of seconds, from 0 up"),
        ("delay", -1, "suite.delay=-1: must be a number of seconds, from 0 up"),
        ("limit", 2, "suite.limit=2: must be an integer, from 3 up, or null"),
        ("loud", 1, "suite.loud=1: must be true or false"),
        ("loud", "yes", "suite.loud=yes: must be true or false"),
        ("table", [1], "suite.table=[1]: must be a mapping, or null"),
        ("colors", "gren", "suite.colors=gren: must be one of red, green, blue, or a non-empty list of these, none twice"
         ". Did you mean green?"),
        ("colors", ["red", "gren"], "Did you mean green?"),
        ("colors", [], "a non-empty list"),
        ("colors", ["red", "red"], "suite.colors=[red, red]: names red twice"),
        ("names", "abc", "suite.names=abc: must be a list, each a string"),
        ("names", ["\udc80"], "suite: holds text that is not valid Unicode"),
        ("names", "x" * 10_000, "x...: must be a list"),
    ],
)  # fmt: skip
def test_what_is_not_declared_is_refused_with_key_value_and_what_would_be_right(key, value, message):
    with pytest.raises(SettingError) as refused:
        check_values("suite", KINDS, {key: value})
    assert message in str(refused.value) and "\n" not in str(refused.value) and len(str(refused.value)) < 500


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
    check_instance("suite", Declared(pegs=(1, 2), colors=("red",)))
    with pytest.raises(SettingError, match=r"suite\.rounds=0"):
        check_instance("suite", Declared(rounds=0))


def test_defaults_and_types_come_from_the_signature_of_any_class():
    class Plain:
        def __init__(self, sampling, context: Count, *, batch: Count = 8):
            pass

    plain = settings_of(Plain)
    assert [name for name, setting in plain.items() if setting.required] == ["sampling", "context"]
    assert plain["batch"].default == 8 and plain["batch"].kind == Count and plain["sampling"].kind is Any
    assert settings_of(Declared)["names"].default == ["a"]
    assert settings_of(Declared)["device"].default == dataclasses.fields(Declared)[0].default == -1
    assert plain["context"].default is inspect.Parameter.empty


def test_a_misspelt_key_among_many_is_answered_by_what_was_meant_first():
    known = [f"field_{number}" for number in range(MOST_NAMES + 30)] + ["quantization"]
    with pytest.raises(SettingError) as refused:
        check_keys("model.engine.vllm", known, {"quantisation": 1})
    said = str(refused.value)
    assert said.startswith("model.engine.vllm: unknown key quantisation. Did you mean quantization?")
    assert said.endswith(" and 31 more")
    with pytest.raises(SettingError, match=f"{sorted(known)[MOST_NAMES - 1]}$"):
        check_keys("suite", sorted(known)[:MOST_NAMES], {"?": 1})
    assert [shown("x" * length) for length in (MOST_SHOWN, MOST_SHOWN + 1)] == ["x" * 200, "x" * 200 + "..."]


def test_the_schema_says_types_bounds_choices_help_and_defaults():
    schema = schema_of({"rounds": Count, "colors": Color, "handle": Handle}, {"rounds": "How many."}, {"colors": "red"})
    assert schema["properties"]["rounds"] == {
        **{"minimum": 1, "title": "Rounds", "type": "integer", "description": "How many."}
    }
    assert schema["properties"]["colors"]["enum"] == ["red", "green", "blue"]
    assert schema["properties"]["colors"]["default"] == "red"
    assert schema["required"] == ["rounds", "handle"] and schema["additionalProperties"] is False
    json.dumps(schema)


def test_types_are_described_in_words():
    assert describe(Annotated[Sequence[int], Distinct()]) == "a list, each an integer, none twice"
    assert describe(Any) == "anything" and describe(str | None) == "a string, or null"
