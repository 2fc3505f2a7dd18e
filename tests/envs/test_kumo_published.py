"""Importing the published benchmark: from a checkout in its layout, good, malformed and hostile."""

import argparse
import errno
import json
import os
import shutil
import socket
from pathlib import Path

import pytest

from envs.disk import exit_code
from envs.kumo.published import MalformedFolderError, benchmark_domains, import_checkout, open_domain, source
from envs.kumo.published.checkout import CheckoutError, read_text
from envs.kumo.published.command import describe
from envs.kumo.published.command import main as import_main
from envs.kumo.published.importing import domain_name, warnings_to_text
from envs.kumo.published.literals import NotDataError, read_variables
from envs.kumo.published.outcomes import read_table, touching
from envs.kumo.published.templates import fill, turn_templates
from tests.envs.kumo_checkout import AGENT, EASY, FOUR, POND, POND_TASKS, write_checkout
from tests.golden import check_golden


def quietly(number, count, name):
    """No progress."""


@pytest.fixture(scope="module")
def brought(tmp_path_factory):
    """A whole import: what it said, and the folder."""
    checkout = write_checkout(tmp_path_factory.mktemp("checkout"))
    folder = tmp_path_factory.mktemp("imported") / "kumo"
    return import_checkout(checkout, folder, quietly), str(folder)


# --- what a good checkout gives --------------------------------------------------------------------------------------


def test_domains_tasks_books_and_counts_are_imported(brought):
    imported, folder = brought
    assert benchmark_domains(folder) == ("marsh", "pond") and imported.tasks == {"easy": 7}
    pond = open_domain(folder, "pond")
    assert [each.task.truths for each in pond.tasks] == [tuple(FOUR)] * 3
    assert [each.task.valid_truth for each in pond.tasks] == ["Otter", "Heron", "Fox"]
    assert pond.tasks[1].task.action_names == ("Prints", "Scale", "Leftovers", "Call", "Feather", "Nest")
    assert pond.tasks[2].book.startswith("Rules of PondEnv 2. ") and pond.tasks[2].shown["Scale"] == 3.25
    assert {each.shipped_actions for each in pond.tasks} == {4} and [each.level for each in pond.tasks] == ["easy"] * 3
    assert pond.domain.truths == ("Otter", "Heron", "Mallard", "Fox", "Crab")


def test_outcome_tables_are_restricted_to_the_task_and_read_from_every_form_of_set(brought):
    pond = open_domain(brought[1], "pond").tasks[0].task
    table = {action.name: {state.text: set(state.rules_out) for state in action.states} for action in pond.actions}
    assert table["Prints"] == {"toes": {"Otter", "Fox"}, "pads": {"Heron", "Mallard"}, "none": set()}
    assert table["Leftovers"] == {"bones": {"Mallard"}, "stems": {"Otter", "Heron"}}
    assert table["Call"] == {"quack": {"Otter"}, "none": set()}  # of Otter, Fox and Crab one is not in the task
    assert table["Scale"]["-3.5 to -1.0"] == set()


@pytest.mark.parametrize(("second", "overlap"), [((1, 2), False), ((2, 3), False), ((0.5, 2), True), ((0, 0.5), True)])
def test_ranges_that_only_touch_do_not_overlap(second, overlap):
    outcomes = {"a": {"type": "float", "states": {(0, 1): ["x"], second: ["y"]}}}
    _, actions, warnings = read_table({"Truths": ["x", "y"], "Actions": ["a"], "Outcomes": outcomes})
    assert any("overlapping" in each for each in warnings) == overlap
    assert touching(actions) == (second == (1, 2))


def test_where_ranges_touch_the_first_decides(brought):
    imported, folder = brought
    assert imported.touching == ["pond"]
    first = open_domain(folder, "pond").tasks[0].task  # 1 lies in (0, 1) and in (1, 5)
    assert first.actions[1].state_of(1).value == (0, 1)
    assert first.survivors({"Scale": 1}) == ("Heron", "Mallard")


# --- malformed tasks -------------------------------------------------------------------------------------------------


def test_malformed_tasks_are_imported_and_say_why(brought):
    imported, folder = brought
    tasks = open_domain(folder, "marsh").tasks
    assert [each.task.index for each in tasks] == [0, 1, 2, 3]
    assert "none of its outcomes" in " ".join(tasks[0].malformed) and "2 ranges" in " ".join(tasks[0].malformed)
    assert "'Call' is a truth and a test" in tasks[2].malformed
    named = {(flaw.domain, flaw.seed) for flaw in imported.of_kind("task")}
    assert named >= {("marsh", 0), ("marsh", 1), ("marsh", 2), ("marsh", 3), ("pond", 0)} and ("pond", 2) not in named


def test_truths_win_as_the_published_code_scores(brought):
    marsh = [each.task for each in open_domain(brought[1], "marsh").tasks]
    # 0: both ranges of Scale count; the list that Count shows rules out nothing, nor would its ranges
    assert marsh[0].winning_truths == ("Mallard",) and marsh[0].accepted is None
    # 1: 6.5 is in no range of Depth, one of which is reversed
    assert marsh[1].winning_truths == ("Mallard",)
    # 3: the two ranges together rule out the valid truth, too
    assert marsh[3].winning_truths == ("Fox",) and marsh[3].valid_truth == "Otter"
    # pond 0: the end of two ranges: both count, and no truth is left
    assert open_domain(brought[1], "pond").tasks[0].task.winning_truths == ()


def test_an_outcome_in_no_table_rules_out_nothing(brought):
    first = open_domain(brought[1], "marsh").tasks[0].task
    count = first.actions[2]
    assert count.outcome == "other" and first.survivors({"Count": first.observations[2]}) == tuple(FOUR)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CheckoutError("no data"), 2),
        (OSError(errno.ENOSPC, "No space left on device"), 1),
        (PermissionError(13, "no"), 2),
    ],
)
def test_an_import_ends_with_the_documented_exit_codes(error, code, monkeypatch, capsys):
    def fail(*given):
        raise error

    monkeypatch.setattr("envs.kumo.published.command.import_checkout", fail)
    assert import_main(argparse.Namespace(checkout=Path("a"), folder=Path("b"))) == code == exit_code(error)
    assert capsys.readouterr().err == f"error: {error}\n"


def test_what_an_import_says_and_writes_is_as_on_record(tmp_path):
    told = []
    imported = import_checkout(write_checkout(tmp_path), tmp_path / "kumo", lambda *each: told.append(each))
    assert told == [(1, 2, "marsh"), (2, 2, "pond")], "progress"
    parts = [*describe(imported), *warnings_to_text(imported)]
    for path in sorted((tmp_path / "kumo").rglob("*.json*")):
        text = path.read_text()
        values = map(json.loads, text.splitlines()) if path.suffix == ".jsonl" else [json.loads(text)]
        lines = [json.dumps(value | {"book": value.get("book", "")[:40]}) for value in values]
        parts += ["", f"# {path.relative_to(tmp_path)}", *lines]
    check_golden("kumo_import", "\n".join(parts))


def test_a_domain_under_two_names_is_named(tmp_path):
    def copied(checkout):
        source = (checkout / "env" / "pond_env.py").read_text().replace("PondEnv", "LakeEnv")
        (checkout / "env" / "lake_env.py").write_text(source)
        shutil.copytree(checkout / "env" / "PondEnv", checkout / "env" / "LakeEnv")

    imported, _ = broken(tmp_path, copied)
    assert [flaw.text for flaw in imported.of_kind("copy")] == ["pond: has the same truths and tests as lake"]
    assert any("pond" in line and "lake" in line for line in warnings_to_text(imported))


# --- one bad line, one missing file ----------------------------------------------------------------------------------


def broken(tmp_path, change):
    """The import of a checkout that ``change`` has been at; its warnings of kinds other than domain and task."""
    checkout = write_checkout(tmp_path / "checkout")
    change(checkout)
    imported = import_checkout(checkout, tmp_path / "kumo", quietly)
    return imported, [flaw for flaw in imported.warnings if flaw.kind not in ("domain", "task")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{not json", "left out"),
        ("[" * 100_000, "nested deeper than"),
        ('{"truths": []}', "lacks actions"),
        (json.dumps({**POND_TASKS[1], "actions": [*POND_TASKS[1]["actions"][:5], "Pints"]}), "unknown action 'Pints'"),
        (json.dumps({**POND_TASKS[1], "truths": ["Otter", "Heron", "Fox", "Gnu"]}), "unknown truth 'Gnu'"),
        (json.dumps({**POND_TASKS[1], "seed": "1"}), "seed"),
        (json.dumps(POND_TASKS[2]), "repeats the seed 2"),
        (json.dumps({**POND_TASKS[1], "observations": {"Prints": "toes"}}), "one observation for each"),
        (json.dumps({**POND_TASKS[1], "valid_truth": "Crab"}), "'Crab', which is not among its truths"),
        (json.dumps({**POND_TASKS[1], "valid_truth": ["Heron"]}), "not among its truths"),
        ('{"truths": NaN}', "NaN"),
        (json.dumps({**POND_TASKS[1], "seed": 2**31}), "a seed that is no whole number up to 2,147,483,647"),
        *(
            (
                json.dumps({**POND_TASKS[1], "observations": dict.fromkeys(POND_TASKS[1]["actions"], wrong)}),
                "nor number",
            )
            for wrong in (int("9" * 300), 1e16, True, "\ud800", None, ["toes", 10**400 // 10**80])
        ),
    ],
)
def test_one_bad_line_costs_itself_only(tmp_path, line, said):
    def change(checkout):
        path = checkout / "env" / "PondEnv" / f"{EASY}.jsonl"
        path.write_text("\n".join([json.dumps(POND_TASKS[0]), json.dumps(POND_TASKS[2]), line]))

    imported, flaws = broken(tmp_path, change)
    assert [each.task.index for each in open_domain(str(tmp_path / "kumo"), "pond").tasks] == [0, 2]
    assert [flaw.kind for flaw in flaws] == ["line"] and said in flaws[0].text and "line 3" in flaws[0].text
    assert imported.tasks == {"easy": 6}


def test_an_unknown_action_is_named_with_the_one_it_may_mean(tmp_path):
    line = {**POND_TASKS[1], "actions": [*POND_TASKS[1]["actions"][:5], "Pints"]}

    def change(checkout):
        (checkout / "env" / "PondEnv" / f"{EASY}.jsonl").write_text(json.dumps(line))

    assert "'Prints'" in broken(tmp_path, change)[1][0].what


def test_missing_books_and_counts_are_named(tmp_path):
    def change(checkout):
        (checkout / "env" / "PondEnv" / "knowledge_book" / EASY / "seed=1.txt").unlink()
        (checkout / "env" / "PondEnv" / "knowledge_book" / EASY / "seed=2.txt").write_text("Short.")
        (checkout / "results" / "search_results" / "MarshEnv" / EASY / "eval_times=10.jsonl").unlink()

    imported, flaws = broken(tmp_path, change)
    assert [(flaw.domain, flaw.seed) for flaw in flaws if flaw.kind == "book"] == [("pond", 1), ("pond", 2)]
    assert {flaw.domain for flaw in flaws if flaw.kind == "oracle"} == {"marsh"}
    assert open_domain(str(tmp_path / "kumo"), "marsh").tasks[0].shipped_actions is None
    assert imported.domains == ["marsh", "pond"]


@pytest.mark.parametrize("taken", ["[]", '"Prints"', "null", "3"])
def test_a_count_of_the_search_that_is_none_is_named(tmp_path, taken):
    def change(checkout):
        path = checkout / "results" / "search_results" / "PondEnv" / EASY / "eval_times=10.jsonl"
        first, *others = path.read_text().splitlines()
        fields = json.loads(first)
        fields["trajectories"][0]["actions"] = json.loads(taken)
        path.write_text("\n".join([json.dumps(fields), *others]))

    _, flaws = broken(tmp_path, change)
    assert [(flaw.kind, flaw.domain) for flaw in flaws] == [("oracle", "pond")] * 2
    assert "line 1 of the published search cannot be read" in flaws[0].what
    counts = [each.shipped_actions for each in open_domain(str(tmp_path / "kumo"), "pond").tasks]
    assert counts.count(None) == 1


# --- hostile checkouts -----------------------------------------------------------------------------------------------

CODE = [
    "import os",
    "Truths = [open('/tmp/kumo-was-executed', 'w')]",
    "Truths = __import__('os').listdir('.')",
    "Truths = [x for x in ().__class__.__base__.__subclasses__()]",
    "for x in [1]: pass",
    "Truths = ['a'] * 10 ** 9",
    "Truths = (lambda: ['a'])()",
    "def f(): pass",
    "Truths: list = ['a']",
    "Truths[0] = 'a'",
    "Truths = f'{1}'",
    "Truths = {**{}}",
    "Truths = {[1]: 2}",
    "Truths = 1e999",
    "Truths = True",
    "Truths = set(*['a'])",
    "Truths = set(a='b')",
    "a = b = open('x')",
    "a, b = 1, 2",
    "Names = ['a']\nTruths = [x for x in Names if x.isalpha()]",
    "Names = ['a']\nTruths = [x for x in Names for y in Names]",
    "Names = ['a']\nTruths = [y for x in Names]",
    "Names = [1]\nTruths = [x for x in Names]",
]


@pytest.mark.parametrize("text", CODE)
def test_code_in_a_data_module_is_refused_and_not_run(text, monkeypatch):
    monkeypatch.setattr("builtins.open", lambda *_: pytest.fail("executed"))
    with pytest.raises(NotDataError, match="line"):
        read_variables(text)


@pytest.mark.parametrize(
    "text",
    [
        "Truths = " + "[" * 150 + "]" * 150,
        "x = " + "[" * 100_000,
        "x = " + "-" * 200_000 + "1",
        "x = a" + ".b" * 80_000,
        "x =",
        "\0",
    ],
    ids=["nested", "brackets", "signs", "attributes", "syntax", "null byte"],
)
def test_nesting_and_broken_syntax_are_refused(text):
    with pytest.raises(NotDataError):
        read_variables(text)


def test_data_modules_hold_numbers_of_either_sign_and_docstrings():
    assert read_variables("'''About.'''\nx = y = {(-1, 2.5): {'b', 'a', 'b'}, 'c': set()}") == {
        "x": {(-1, 2.5): ("b", "a"), "c": ()},
        "y": {(-1, 2.5): ("b", "a"), "c": ()},
    }


def code(checkout):
    (checkout / "env" / "data" / "pond_data.py").write_text("import os\nos.mkdir('executed')\n" + POND)


def huge(checkout):
    with (checkout / "env" / "data" / "pond_data.py").open("wb") as file:
        file.write(b"x = ")
        file.truncate(1 << 30)  # a sparse gigabyte


def nesting(checkout):
    (checkout / "env" / "data" / "pond_data.py").write_text("Truths = " + "[" * 90_000)


def climbing(checkout):
    path = checkout / "env" / "pond_env.py"
    path.write_text(path.read_text().replace("env.data.pond_data", "env.data...secret"))


def link(checkout):
    path = checkout / "env" / "data" / "pond_data.py"
    path.rename(checkout.parent / "elsewhere.py")
    path.symlink_to(checkout.parent / "elsewhere.py")


def linked_folder(checkout):
    (checkout / "env" / "data").rename(checkout.parent / "data")
    (checkout / "env" / "data").symlink_to(checkout.parent / "data")
    # the other domain goes, too


def pipe(checkout):
    path = checkout / "env" / "data" / "pond_data.py"
    path.unlink()
    os.mkfifo(path)


def binary(checkout):
    (checkout / "env" / "data" / "pond_data.py").write_bytes(b"\xff\xfe\x00")


def exchanged(old, new):
    def change(checkout):
        path = checkout / "env" / "data" / "pond_data.py"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))

    return change


no_outcomes = exchanged("{'warm': {'Crab'}, 'cold': set()}", "{}")
ranges = ", ".join(f"({number}, {number + 300}): set()" for number in range(201))
many_outcomes = exchanged("(0, 1): {'Otter', 'Fox'}", ranges)
half_a_character = exchanged("'toes'", r"'\ud800toes'")


def prompt_code(checkout):
    path = checkout / "env" / "pond_env.py"
    path.write_text(path.read_text().replace("{self.env.truth_space}", "{__import__('os').getcwd()}"))


@pytest.mark.parametrize(
    "change",
    [code, huge, nesting, climbing, link, pipe, binary, prompt_code, no_outcomes, many_outcomes, half_a_character],
)
def test_a_hostile_domain_is_refused_by_name_and_the_others_are_not(tmp_path, monkeypatch, change):
    monkeypatch.chdir(tmp_path)
    imported, flaws = broken(tmp_path, change)
    assert imported.domains == ["marsh"] and not (tmp_path / "executed").exists()
    assert [(flaw.kind, flaw.domain) for flaw in flaws] == [("refused", "pond")] and "PondEnv" in flaws[0].text


def test_a_checkout_without_one_good_domain_leaves_no_folder(tmp_path):
    with pytest.raises(CheckoutError, match="symbolic link"):
        broken(tmp_path, linked_folder)
    assert not (tmp_path / "kumo").exists() and not list(tmp_path.glob(".kumo*"))


def test_what_is_no_checkout_is_refused(tmp_path):
    with pytest.raises(CheckoutError, match="vanilla_agent"):
        import_checkout(tmp_path, tmp_path / "kumo", quietly)


@pytest.mark.parametrize("relative", ["../secret", "/etc/passwd", "a/../../b", "a\0b"])
def test_paths_do_not_climb_out_of_the_checkout(tmp_path, relative):
    with pytest.raises(CheckoutError, match="outside"):
        read_text(tmp_path, relative, 100)


def test_a_file_at_the_limit_is_read_and_one_above_is_not(tmp_path):
    (tmp_path / "a").write_text("x" * 100)
    assert len(read_text(tmp_path, "a", 100)) == 100
    with pytest.raises(CheckoutError, match="100 bytes, where at most 99"):
        read_text(tmp_path, "a", 99)


def test_a_folder_that_holds_something_else_is_not_replaced(tmp_path):
    checkout = write_checkout(tmp_path / "checkout")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("...")
    with pytest.raises(CheckoutError, match="something else"):
        import_checkout(checkout, tmp_path / "mine", quietly)
    assert (tmp_path / "mine" / "thesis.tex").exists()
    import_checkout(checkout, tmp_path / "kumo", quietly)
    import_checkout(checkout, tmp_path / "kumo", quietly)  # its own is


OTHER_THINGS = {
    "a benchmark.json of another program": {"benchmark.json": '{"my": "own"}', "thesis.txt": "years"},
    "a benchmark.json that is no JSON": {"benchmark.json": "mine", "domains/a.json": "{}"},
    "another format": {"benchmark.json": '{"format": 0, "domains": []}'},
    "names of no domains": {"benchmark.json": '{"format": 1, "domains": ["../up"]}'},
    "a file beside an import": {"benchmark.json": '{"format": 1, "domains": ["pond"]}', "notes.txt": "mine"},
    "a file within an import": {"benchmark.json": '{"format": 1, "domains": ["pond"]}', "tasks/marsh.jsonl": "mine"},
    "a hidden folder": {"benchmark.json": '{"format": 1, "domains": []}', ".git/HEAD": "ref"},
}


@pytest.mark.parametrize("files", OTHER_THINGS.values(), ids=OTHER_THINGS)
def test_only_an_import_that_holds_nothing_else_is_replaced(files, tmp_path):
    folder = tmp_path / "mine"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    with pytest.raises(
        CheckoutError, match=r"mine: holds something else than an imported benchmark.*; name another folder"
    ):
        source.write_folder(folder, {"format": 1, "domains": []}, {})
    assert {
        path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()
    } == files
    assert [*tmp_path.iterdir()] == [folder]


def test_what_comes_into_a_folder_while_an_import_is_written_is_kept(tmp_path, monkeypatch):
    folder = tmp_path / "kumo"
    source.write_folder(folder, {"format": 1, "domains": []}, {})
    write = source._write

    def write_beside_somebody_else(path, text):
        write(path, text)
        (folder / "thesis.txt").write_text("years")

    monkeypatch.setattr(source, "_write", write_beside_somebody_else)
    with pytest.raises(CheckoutError, match=r"something else .*, thesis.txt; name another folder"):
        source.write_folder(folder, {"format": 1, "domains": []}, {})
    assert (folder / "thesis.txt").read_text() == "years" and [*tmp_path.iterdir()] == [folder]


def test_a_benchmark_is_imported_to_where_a_link_leads(tmp_path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "scratch")
    for _ in range(2):
        source.write_folder(tmp_path / "link", {"format": 1, "domains": []}, {})
    assert (tmp_path / "link").is_symlink() and benchmark_domains(str(tmp_path / "link")) == ()


def test_writing_that_fails_leaves_an_earlier_import_as_it_was_and_nothing_of_its_own(tmp_path, monkeypatch):
    earlier, later = ({name: {"tasks": [], "version": version} for name in ("marsh", "pond")} for version in (1, 2))
    summary = {"format": 1, "domains": ["marsh", "pond"]}
    source.write_folder(tmp_path / "kumo", summary, earlier)

    def files():
        return {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}

    before = files()
    write, written = source._write, []
    for full_at in range(1, 6):  # two files of each of two domains, and the summary

        def write_until_full(path, text, full_at=full_at):
            written.append(path)
            if len(written) == full_at:
                raise OSError(errno.ENOSPC, "No space left on device")
            write(path, text)

        written.clear()
        monkeypatch.setattr(source, "_write", write_until_full)
        with pytest.raises(OSError, match="No space"):
            source.write_folder(tmp_path / "kumo", summary, later)
        assert files() == before


def test_what_a_killed_import_has_left_is_removed_by_the_next(tmp_path):
    checkout = write_checkout(tmp_path / "checkout")
    ended = 4_194_304  # no process has this number: it is the most that Linux gives, and one more
    ours = f".kumo.{socket.gethostname()}"
    killed, at_work, elsewhere = f"{ours}.{ended}.tmp", f"{ours}.{os.getppid()}.tmp", f".kumo.elsewhere.{ended}.tmp"
    for name in (killed, at_work, elsewhere):
        (tmp_path / name / "tasks").mkdir(parents=True)
    import_checkout(checkout, tmp_path / "kumo", quietly)
    assert {path.name for path in tmp_path.iterdir()} == {"checkout", "kumo", at_work, elsewhere}


# --- the folder ------------------------------------------------------------------------------------------------------


def test_a_damaged_or_foreign_folder_is_refused(tmp_path, brought):
    with pytest.raises(MalformedFolderError, match="raycade kumo import"):
        benchmark_domains(str(tmp_path))
    with pytest.raises(MalformedFolderError, match=r"no domain 'gnu'.*marsh, pond"):
        open_domain(brought[1], "gnu")
    for number, summary in enumerate([{"format": 2}, {"format": 1, "domains": ["../pond"]}, [], {"format": 1}]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "benchmark.json").write_text(json.dumps(summary))
        with pytest.raises(MalformedFolderError):
            benchmark_domains(str(folder))


def test_characters_that_end_lines_elsewhere_end_none_of_the_folder(tmp_path):
    folder = tmp_path / "kumo"
    import_checkout(write_checkout(tmp_path / "checkout"), folder, quietly)
    file = folder / "tasks" / "pond.jsonl"
    tasks = [json.loads(line) for line in file.read_text().split("\n") if line]
    tasks[0]["book"] = "One.\u2028Two.\u0085Three.\x0bFour."
    file.write_text("".join(json.dumps(task, ensure_ascii=False) + "\n" for task in tasks))
    assert open_domain(str(folder), "pond").tasks[0].book == tasks[0]["book"]


@pytest.mark.parametrize("text", ["{}", "[1", '{"level": "easy"}', "[" * 100_000])
def test_a_damaged_line_of_the_folder_is_named(tmp_path, text):
    checkout = write_checkout(tmp_path / "checkout")
    folder = tmp_path / "kumo"
    import_checkout(checkout, folder, quietly)
    (folder / "tasks" / "pond.jsonl").write_text(text)
    with pytest.raises(MalformedFolderError, match=r"tasks/pond\.jsonl: is damaged"):
        open_domain(str(folder), "pond")


# --- names and words -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "name"),
    [("MedicalEnv", "medical"), ("OSKernelEnv", "os_kernel"), ("MLEnv", "ml"), ("SciFiEnv", "sci_fi"),
     ("VirusClassificationEnv", "virus_classification"), ("BirdNestEnv", "bird_nest")],
)  # fmt: skip
def test_domains_are_named_as_ours_are(env, name):
    assert domain_name(env) == name


def test_the_agents_words_are_templates():
    turns = turn_templates(AGENT)
    assert fill(turns.outcome, {"observation": "X"}) == "Seen last: X"
    assert (turns.joint, turns.begin) == ("\n\n", "Start.")
    said = fill(turns.instruction, {"actions": "['A']", "truths": "['T']"})
    assert said == "Pick a test of ['A'] or a truth of ['T']. \nSay '<ANSWER> ${name} </ANSWER>'."
