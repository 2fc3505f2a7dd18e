"""Changes that mutation testing makes: each in one line, each can be parsed, and none at import."""

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.mutation import plugin
from benchmarks.mutation.__main__ import table_of
from benchmarks.mutation.changes import Change, all_changes, changes_in
from tests.golden import check_golden

ODD = '''
"""A module's text."""
LIMIT = 3 + 1


@njit(cache=True)
def compiled(a):
    return a + 1


class Box:
    size = 1 + 1

    def fill(self, items, *, most=2):
        """A method's text."""
        names: list[str] = [item.name.strip() for item in items if item.name and not item.hidden]
        for name in sorted(names, key=len):
            if len(name) >= most or name == "é":
                continue
            self.names[name] = min(most, len(name)) if most is not None else 0.5
            self.count += 1
            print(f"{name} {most - 1}", self, name)
        found = (
            most
            < len(names)
        )
        if found: break_up(names[-1], True)
        return names, found


async def ask(one, other):
    def inner():
        return one * other // 2 % 3

    return await call(lambda: one is other and inner() in one, other), "a" + one
'''


def test_every_change_of_a_file_is_as_on_record():
    source = ODD.encode()
    found = sorted(all_changes("odd.py", source), key=lambda change: (change.start, change.end, change.text))
    check_golden("mutation", "\n".join(f"{each.line} {each.kind}: {each.shown(source)}" for each in found))


@given(st.integers(0, 10**6), st.sampled_from([0, 0.3, 1]))
@settings(max_examples=20)
def test_a_change_leaves_all_other_lines_as_they_are(tmp_path_factory, seed, share):
    folder = tmp_path_factory.getbasetemp()
    (folder / "odd.py").write_text(ODD)
    source = ODD.encode()
    changes = changes_in(folder, "odd.py", share, seed)
    lines = [change.line for change in changes]
    assert len(set(lines)) == len(lines)
    if share in (0, 1):
        assert (len(lines) > 9) == bool(share)
    for change in changes:
        changed = change.applied(source)
        ast.parse(changed)
        before, after = source.decode().splitlines(), changed.decode().splitlines()
        differing = [line for line, (one, other) in enumerate(zip(before, after, strict=True), 1) if one != other]
        assert differing == [change.line]


def test_shares_are_of_all_changes_of_which_something_can_be_told():
    ends = ["noticed"] * 3 + ["survived"] * 2 + ["not run", "unknown"]
    results = [(Change("evals/stats/a.py", 1, 0, 1, "", ""), end, "", 1) for end in ends]
    results.append((Change("cluster/cli.py", 1, 0, 1, "", ""), "unknown", "", 1))
    assert table_of(results).rows == (
        ("all", 6, 3, 2, 1, 0.5),
        ("cluster", 0, 0, 0, 0, None),
        ("cluster/cli.py", 0, 0, 0, 0, None),
        ("evals", 6, 3, 2, 1, 0.5),
        ("evals/stats", 6, 3, 2, 1, 0.5),
    )


@pytest.mark.parametrize(
    ("told", "verdict"),
    [
        ([[("failed", "test")]], ("noticed", "test")),
        ([[("passed", "")]], ("survived", "")),
        ([[("unknown", "")]], ("unknown", "")),
        ([[], [("passed", "")]], ("noticed", "")),
        ([[], []], ("unknown", "")),
    ],
)
def test_a_change_is_noticed_where_its_tests_fail_or_hang_with_it_alone(told, verdict, monkeypatch):
    monkeypatch.setattr(plugin, "_in_child", lambda work: told.pop(0))
    change = Change("a.py", 1, 0, 1, "", "")
    assert plugin._verdict(change, b"", ["test"], {}, Path()) == verdict and not told
    assert plugin._verdict(change, b"", [], {}, Path()) == ("not run", "")
