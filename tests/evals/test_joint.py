"""Several runs in one report: rules of labels, of players' names, and of tables that become one."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.analysis.labels import run_labels, run_names
from evals.players import BUILT_IN_PLAYERS
from evals.report.joint import Report, RunReport, joined_tables, relabeled
from evals.tables import Table
from tests.runs import Often, run_of
from tests.toy import ToySuite

VALUES = st.one_of(st.sampled_from(["a", "b", "", "x" * 40]), st.integers(0, 2), st.booleans(), st.none())
SECTION = st.dictionaries(st.sampled_from(["suite.p", "suite.q", "decoding"]), VALUES | st.lists(VALUES, max_size=2))


@pytest.mark.slow
@given(st.lists(SECTION, min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_labels_are_short_different_and_of_as_few_settings_as_can_be(flat):
    runs = {f"run-{number}": each for number, each in enumerate(flat)}
    labels = run_labels(runs)
    assert list(labels) == list(runs) and len(set(labels.values())) == len(runs)
    if labels != {name: name for name in runs}:
        assert max(map(len, labels.values())) <= 32
        parts = {label.count(", ") for label in labels.values()}
        assert parts <= {0, 1}
    if len({each.get("decoding") for each in flat if not isinstance(each.get("decoding"), list)}) == len(flat) > 1:
        told = [each.get("decoding") for each in flat]
        short = all(not isinstance(value, str) or len(value) <= 32 for value in told)
        if short and all(str(value) for value in told):
            assert all(", " not in label for label in labels.values()), "one setting tells them apart"


def test_a_label_is_a_word_or_a_named_value():
    def labels(*values):
        return list(run_labels({str(number): {"suite": {"k": value}} for number, value in enumerate(values)}).values())

    assert labels("prose", "table") == ["prose", "table"]
    assert labels(1, 2.5) == ["k 1", "k 2.5"]
    assert labels(["a", "b"], ["c"]) == ["a b", "c"]
    for name, told in (("past_steps", ["past steps 1", "past steps 2"]), ("shots", ["1 shot", "2 shots"])):
        assert list(run_labels({str(value): {"suite": {name: value}} for value in (1, 2)}).values()) == told
    assert labels("", "table") == ["no k", "table"]
    words = {number: {"suite": {"most_words": number}, "name": None} for number in (1, 2)}
    assert list(run_labels(words).values()) == ["most words 1", "most words 2"], (
        "two words are no plural of what is counted"
    )
    assert labels("x" * 33, "y") == ["0", "1"], "too long"
    assert labels("x" * 32, "y") == ["x" * 32, "y"]


def test_a_run_is_called_by_its_name_else_by_what_differs_and_never_by_its_folder_where_something_does():
    def run(suite, model, name=None, **settings):
        return {"suite": {"name": suite, **settings}, "model": {"name": model}, "name": name}

    runs = {
        "kumo-a-11": run("kumo", "a", enable_thinking=True),
        "kumo-a-22": run("kumo", "a", enable_thinking=False),
        "kumo-b-33": run("kumo", "b"),
        "kidgym-a-44": run("kidgym", "a", "the long one"),
    }
    assert list(run_names(runs).values()) == ["kumo, a, thinking", "kumo, a, no thinking", "kumo, b", "the long one"]
    models = {"kumo-a-11": run("kumo", "a"), "kumo-b-33": runs["kumo-b-33"]}
    assert list(run_names(models).values()) == ["a", "b"], "one suite need not be told"
    shots = {
        "x-1": run("kumo", "a", shots=0),
        "x-2": run("kumo", "a", shots=4),
        "x-3": run("kumo", "a", "mine", shots=9),
    }
    assert list(run_labels(shots).values()) == ["0 shots", "4 shots", "mine"]
    assert run_names({"x-1": shots["x-1"]}) == {"x-1": "kumo, a"}, "one run needs no setting to be told"
    same = {"x-1": run("kumo", "a", "mine"), "x-2": run("kumo", "a", "mine")}
    assert list(run_labels(same).values()) == ["mine (x-1)", "mine (x-2)"]


def toy(episodes, players):
    known = {"oracle": BUILT_IN_PLAYERS["oracle"], "random": BUILT_IN_PLAYERS["random"]}
    return run_of(ToySuite(episodes=episodes), {name: known.get(name, Often(0.5)) for name in players}, name=episodes)


def players_of(run):
    return list(dict.fromkeys(run.plan["player"].to_pylist()))


def test_players_are_told_apart_and_equal_baselines_are_shown_once():
    runs = {
        "a": toy(4, ("m", "oracle")),
        "b": toy(6, ("m", "oracle")),
        "c": toy(4, ("n", "oracle")),
        "d": toy(4, ("m",)),
    }
    names = {"a": "A", "b": "B", "c": "C", "d": "D"}
    found = relabeled(runs, {"oracle", "random"}, names)
    assert {name: players_of(run) for name, run in found.items()} == {
        "a": ["m (A)", "oracle (A)"],
        "b": ["m (B)", "oracle (B)"],
        "c": ["n"],
        "d": ["m (D)"],
    }
    alike = relabeled({name: runs[name] for name in "acd"}, {"oracle"}, names)
    assert players_of(alike["a"]) == ["m (A)", "oracle"], "with the same games in all runs it keeps its name"
    two = relabeled({name: runs[name] for name in "ab"}, {"oracle"}, names)
    assert players_of(two["a"]) == ["m (A)", "oracle (A)"] and players_of(two["b"]) == ["m (B)", "oracle (B)"]
    for name, run in found.items():
        assert sorted(run.episodes(["episode_id"])["episode_id"].to_pylist()) == sorted(
            run.plan["episode_id"].to_pylist()
        )
        games = lambda each: sorted(zip(each["index"].to_pylist(), each["seed"].to_pylist(), strict=True))  # noqa: E731
        kept = [player.partition(" (")[0] for player in players_of(run)]
        old = runs[name].plan.to_pylist()
        assert games(run.plan) == sorted((row["index"], row["seed"]) for row in old if row["player"] in kept)
    ids = [each for run in found.values() for each in run.plan["episode_id"].to_pylist()]
    assert len(set(ids)) == len(ids), "no episode of two runs has one id"


def test_a_label_never_gives_a_player_the_name_of_another_one():
    runs = {"a": toy(4, ("m",)), "b": toy(6, ("m",)), "c": toy(8, ("m (A)", "m (A) (a)"))}
    found = relabeled(runs, {"oracle"}, {"a": "A", "b": "B", "c": "C"})
    assert {name: players_of(run) for name, run in found.items()} == {
        "a": ["m (A) (a, 2)"],
        "b": ["m (B)"],
        "c": ["m (A)", "m (A) (a)"],
    }


@given(st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["x", "x (a)", "x (b)", "a"]), min_size=1))
def test_labels_differ_whatever_names_runs_were_given(names):
    given_names = {folder: {"name": name} for folder, name in names.items()}
    for labels in (run_labels(given_names), run_names(given_names)):
        assert len({*labels.values()}) == len(labels)


ROWS = st.lists(st.tuples(st.sampled_from("pqr"), st.integers(0, 3)), max_size=4, unique=True)


@given(st.lists(ROWS, min_size=1, max_size=4), st.booleans(), st.booleans())
@settings(deadline=None)
def test_joined_rows_are_those_of_all_runs_once_in_their_order(given_rows, performance, told):
    columns = ("player", "x") if told else ("metric", "x")
    section = "performance" if performance else "scores"
    runs = {f"r{n}": [Table("t", "T", columns, tuple(rows), section=section)] for n, rows in enumerate(given_rows)}
    joint = joined_tables(runs)
    if performance and not told:
        assert [each.rows for each in joint] == [tuple(rows) for rows in given_rows], "of each run by itself"
        assert [each.title for each in joint] == ["T", *(f"T (r{n})" for n in range(1, len(runs)))]
        assert len({each.name for each in joint}) == len(joint)
    else:
        [one] = joint
        assert list(one.rows) == list(dict.fromkeys(itertools.chain.from_iterable(given_rows)))


def test_built_in_players_do_not_compete_under_any_name():
    model = "oracle (mine)"
    runs = {"a": toy(4, ("m", "oracle")), "b": toy(6, ("m", "oracle", model)), "c": toy(8, (model,))}
    found = relabeled(runs, {"oracle"}, {"a": "A", "b": "B", "c": "C"})
    parts = [RunReport(name, run, ToySuite(), (), ()) for name, run in found.items()]
    built_in = Report(parts).baselines
    assert {"oracle", "random", "oracle (A)", "oracle (B)"} <= built_in
    assert not {"m (A)", "m (B)", f"{model} (B)", f"{model} (C)"} & built_in
