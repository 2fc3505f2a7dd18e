"""``raycade kumo validate``: one table for good domains, a line for each problem of the others."""

import argparse
import contextlib
import csv
import dataclasses
import io
import json
import math
import statistics
import sys
from types import SimpleNamespace

import pytest
import yaml

from envs.kumo import load_domain
from envs.kumo.domain_file import DOMAINS
from envs.kumo.quality import quality_of
from evals.suites.kumo import validate
from evals.tables import WRITERS
from tests.envs.kumo_games import toy_yaml
from tests.golden import check_golden

NAMES = ("medical", "knots", "chemical")


@pytest.fixture(autouse=True)
def few_domains(monkeypatch):
    """Reading all that come with raycade takes seconds."""
    monkeypatch.setattr(validate, "available_domains", lambda: ("medical", "music"))


def run(*words):
    parser = argparse.ArgumentParser()
    validate.add_arguments(parser)
    return validate.main(parser.parse_args(words))


def a_file(tmp_path, name, **changes):
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump({**toy_yaml(), "name": name, **changes}, sort_keys=False))
    return str(path)


@pytest.mark.slow
def test_each_domain_is_measured_and_the_last_rows_hold_the_means(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = tmp_path / "quality.csv"
    assert run(*NAMES, "--easy", "1", "--out", str(out)) == 0
    told = capsys.readouterr().out
    lines = [line for line in told.splitlines() if str(tmp_path) not in line]
    assert "3 of 3 domains valid" in told and max(map(len, lines)) <= 80
    assert sum("medicine" in line for line in lines) == 1 and any("home and crafts" in line for line in lines)
    *rows, mean = csv.DictReader(out.open())
    assert [row["domain"] for row in rows] == [*NAMES] and mean["domain"] == "mean"
    for row in rows:
        quality = quality_of(load_domain(row["domain"]), easy=1)
        assert row["category"] == quality.category and row["E[S] hard"] == ""
        wanted = {
            **{"truths": quality.truths, "tests": quality.actions, "parts": quality.components},
            **{"tests with numbers": quality.numeric, "outcomes": quality.outcomes, "fewest tests": quality.fewest},
            **{"density": quality.density, "overlap": quality.overlap, "idle outcomes": quality.idle},
            **{"E[S] easy": quality.steps["easy"], "easy tasks, log10": quality.tasks["easy"]},
            "hard tasks, log10": quality.tasks["hard"],
        }
        assert {name: float(row[name]) for name in wanted} == pytest.approx(wanted, abs=0.051)
        assert float(row["density"]) == pytest.approx(quality.density, abs=0.0006)
    for name in ("truths", "density", "E[S] easy"):
        assert float(mean[name]) == pytest.approx(statistics.mean(float(row[name]) for row in rows), abs=0.051)


@pytest.mark.slow
def test_without_a_name_all_that_come_with_raycade_are_validated(capsys):
    assert run("--easy", "0") == 0
    out = capsys.readouterr().out
    assert "2 of 2 domains valid" in out and all(f"\n{name} " in out for name in ("medical", "music", "mean"))


@pytest.mark.slow
def test_other_forms_of_the_table_and_forms_that_there_are_not(tmp_path, capsys):
    for form in ("json", "md"):
        assert run("knots", "--easy", "0", "--out", str(tmp_path / f"quality.{form}")) == 0
    [table] = json.loads((tmp_path / "quality.json").read_text())
    assert table["rows"][0][0] == "knots" and len(table["rows"]) == 1
    assert "| knots |" in (tmp_path / "quality.md").read_text()
    written = (tmp_path / "quality.md").read_text()
    assert run("knots", "--easy", "1", "--out", str(tmp_path / "quality.md")) == 2, "a file of the user's is kept"
    assert (tmp_path / "quality.md").read_text() == written
    assert run("knots", "--out", "quality.pdf") == 2
    assert ".csv" in capsys.readouterr().err
    assert run("knots", "--easy", "-1") == 2


COMMANDS = [
    "knots --easy 1 --full",
    "one.yaml two.yaml --easy 0",
    "one.yaml bad.yaml bad.yaml nots odd.yaml --easy 0",
    "one.yaml --easy 1 --hard 1 --out deep/quality.csv",
    "one.yaml --out deep/quality.csv",
    "one.yaml --out quality.pdf",
    *(f"one.yaml {wrong}" for wrong in ("--easy -1", "--easy 2", "--hard 2", "--hard -1")),
]


def test_the_command_says_what_is_on_record(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(validate, "MOST_TASKS", 1)
    a_file(tmp_path, "one", category="biology")
    a_file(tmp_path, "two")
    a_file(tmp_path, "odd", phrasings={"rules_out": ["With {outcome} one forgets {truths}."]})
    a_file(tmp_path, "bad", goal=7, phrasings={"nothing": ["{outcome} is fine."]})
    parts = []
    for line in COMMANDS:
        code = run(*line.split())
        out, err = capsys.readouterr()
        parts += [f"$ raycade kumo validate {line}", f"{out}{err}exit code {code}", ""]
    parts.append((tmp_path / "deep/quality.csv").read_text())
    check_golden("kumo_validate", "\n".join(parts))


def test_a_copy_of_a_domain_that_comes_with_raycade_is_refused(tmp_path, capsys):
    medical = load_domain("medical")
    truths = {truth: medical.definitions[truth] for truth in medical.truths}
    actions = {
        action.name: {
            "definition": medical.definitions[action.name],
            "outcomes": {state.text.replace(",", ""): list(state.rules_out) for state in action.states},
        }
        for action in medical.actions
    }
    assert run(a_file(tmp_path, "mine", truths=truths, actions=actions), "--easy", "0") == 2
    assert "a near-duplicate of 'medical'" in capsys.readouterr().err


def test_the_file_of_a_domain_that_comes_with_raycade_is_no_copy_of_itself(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(DOMAINS)
    linked = tmp_path / "medical.yaml"
    linked.symlink_to(DOMAINS / "medical.yaml")
    for name in ("medical.yaml", str(DOMAINS / "medical.yaml"), str(linked)):
        assert run(name, "--easy", "0", "--hard", "0") == 0, capsys.readouterr().err


def test_a_domain_that_is_too_small_for_tasks_is_measured_all_the_same(tmp_path, capsys):
    assert run(a_file(tmp_path, "one"), "--hard", "1") == 0
    assert "1 of 1 domains valid" in capsys.readouterr().out


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stderr", [io.StringIO, Terminal])
def test_three_domains_are_measured_in_a_pool_and_their_count_is_shown_on_a_terminal(stderr, monkeypatch):
    pool = contextlib.nullcontext(SimpleNamespace(map=map))
    monkeypatch.setattr(validate, "process_pool", lambda: pool)
    monkeypatch.setattr(validate, "quality_of", lambda domain, easy, hard: (domain, easy, hard))
    monkeypatch.setattr("sys.stderr", stderr())
    assert validate.measure("abc", 5, 0) == [("a", 5, 0), ("b", 5, 0), ("c", 5, 0)]
    assert validate.measure("a", 5, 1) == [("a", 5, 1)]
    counts = "".join(f"\r{done} of {all_of} measured{end}" for done, all_of, end in
                     ((1, 3, ""), (2, 3, ""), (3, 3, f"\r{' ' * 40}\r"), (1, 1, f"\r{' ' * 40}\r")))  # fmt: skip
    assert sys.stderr.getvalue() == (counts if stderr is Terminal else "")
    monkeypatch.setattr(validate, "process_pool", lambda: pytest.fail("two need no pool"))
    assert validate.measure("ab", 5, 0) == [("a", 5, 0), ("b", 5, 0)]


@pytest.mark.slow
def test_tables_of_quality_are_as_on_record():
    one, two, three = (quality_of(load_domain(name), easy=2) for name in NAMES)
    searched = dataclasses.replace(two, steps={"easy": 1.25, "hard": 3.5})
    unlimited = dataclasses.replace(three, category="", tasks={"easy": math.inf, "hard": 7.25})
    tables = (validate.quality_table, validate.category_table)
    measured = [one, searched, unlimited]
    parts = [WRITERS[".md"](table(some)) for some in (measured, measured[1:2]) for table in tables]
    check_golden("kumo_quality", "\n".join(parts))
