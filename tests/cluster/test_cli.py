"""The command line as a user meets it: help, plans, errors with exit code 2, runs that end early, shards and merges."""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import cli
from cluster.commands.arguments import ADD_ARGUMENTS
from cluster.config.settings import load_settings
from cluster.engines.api_secrets import without_keys
from cluster.errors import UserError
from cluster.listening import listen
from cluster.storage.stored_run import Run
from tests.cluster.conftest import EASY, ROOT, raycade

SMALL = [*EASY, "suite.tasks_per_domain=4", "suite.repeats=2"]


def run_here(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    output = capsys.readouterr()
    return ended.value.code, output.out, output.err


def test_a_current_folder_that_was_deleted_is_named(capsys, monkeypatch, tmp_path):
    folder = tmp_path / "deleted"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    folder.mkdir()  # a new one of the same name is another folder
    code, _, err = run_here(capsys, "plan", "suite=kidgym", "model=random")
    assert (code, err) == (
        2,
        "error: the current folder has been deleted or moved; change to one that is there (`cd`), and try again\n",
    )


@pytest.mark.parametrize("words", ["--help", "run --help", "plan --help", "report --help", "kumo --help", "new --help"])
def test_help_does_not_wait_for_libraries_that_compute_or_serve(words):
    script = (
        "import sys; from cluster.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script, *words.split()], capture_output=True, text=True, cwd=ROOT)
    assert "usage: raycade" in done.stdout
    loaded = set(done.stderr.split())
    heavy = {
        "numpy",
        "scipy",
        "pyarrow",
        "pydantic",
        "hydra",
        "rich",
        "matplotlib",
        "PIL",
        "ray",
        "torch",
        "vllm",
        "wandb",
    }
    assert not loaded & heavy
    assert "argparse" in loaded  # the list is that of the modules


@pytest.mark.slow
def test_no_help_waits_for_engines_or_the_cluster():
    script = (
        "import sys; from cluster.cli import BUILT_IN_COMMANDS, SUITE_COMMANDS, parser_for; from envs import plugins\n"
        "heavy = {'ray', 'vllm', 'torch', 'pandas', 'pyarrow', 'hydra', 'scipy', 'pydantic', 'matplotlib'}\n"
        "for name in ('run', 'plan', 'report', 'merge', *plugins.registered(SUITE_COMMANDS, BUILT_IN_COMMANDS)):\n"
        "    assert parser_for(name).format_help()\n"
        "    print(name, *heavy & {module.partition('.')[0] for module in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) > 30 and not done.returncode, done.stderr
    assert not [line for line in lines if len(line) > 1]


def parsers_of(parser, words=()):
    getattr(parser, "declare", lambda: None)()  # KUMO's commands declare their arguments only where they are asked for
    yield words, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, each in action.choices.items():
                yield from parsers_of(each, (*words, name))


@pytest.mark.parametrize("command", [*ADD_ARGUMENTS, "kumo", "kidgym", "multistar"])
def test_a_default_that_help_tells_is_the_parser_s(command):
    [chosen] = (each for words, each in parsers_of(cli.parser_for(command)) if words == (command,))
    for words, parser in parsers_of(chosen, (command,)):
        for action in parser._actions:
            told = re.search(r"\(default:? ([\w.,-]+)\)", action.help or "")
            if told and type(action.default) in (int, float, str) and action.default != "":
                number = re.sub(r"(?<=\d),(?=\d)", "", told[1])
                told_value = type(action.default)() if number == "none" else type(action.default)(number)
                assert told_value == action.default, (*words, action.dest)


def test_a_study_s_report_takes_any_number_of_runs():
    options = cli.parser_for("study").parse_args(["study", "report", "one", "two", "three", "--player", "m"])
    assert options.run_dirs == [Path("one"), Path("two"), Path("three")] and options.player == "m"


def test_help_names_every_command_and_the_common_overrides(capsys):
    code, out, _ = run_here(capsys, "--help")
    assert code == 0
    core = (
        "run",
        "plan",
        "report",
        "merge",
        "play",
        "compare",
        "list",
        "show",
        "status",
        "rescore",
        "replay",
        "upload",
    )
    for command in (*core, "kidgym", "kumo", "multistar", "raven"):
        assert re.search(rf"^    {command} +\S", out, re.MULTILINE), command
    code, out, _ = run_here(capsys, "run", "--help")
    for override in ("suite=", "model=", "decoding=", "cluster=", "tracker=", "run_dir=", "shard="):
        assert override in out


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["suite=chess"], ["suite=chess", "kumo", "kidgym", "name its folder in RAYCADE_PLUGINS"]),
        (["suite=kmo"], ["suite=kmo: there is none. Did you mean kumo? There are ", " demo, ", " kidgym, "]),
        (["model=gpt9"], ["model=gpt9", "tiny"]),
        (["suite=kumo", "suite.domains=[medicine]"], ["medicine", "Did you mean medical"]),
        (["suite=kumo", "suite.difficulties=[eazy]"], ["eazy", "Did you mean easy"]),
        (["suite=kumo", "suite.repeats=0"], ["repeats", "0"]),
        (["suite=kumo", "suite.repeat=3"], ["suite: unknown key repeat", "Did you mean repeats"]),
        (["suite=kidgym", "suite.tasks=[cl]"], ["cl", "Did you mean CL"]),
        (["suite=kidgym", "suite.resolution=50"], ["50", "64"]),
        (["suite=multistar", "suite.configurations=[center_singel]"], ["Did you mean center_single"]),
        (["decoding=choise"], ["decoding=choise", "one of free, choice", "Did you mean choice"]),
        (["baselines=[human]"], ["human", "random"]),
        (["cluster.replicas=0"], ["cluster.replicas=0"]),
        (["cluster.policy=stickyy"], ["stickyy", "Did you mean sticky"]),
        (["shard=3/2"], ["shard=3/2", "i/n"]),
        (["~model"], ["~model", "cannot be removed"]),
        (["suite.type=os.system"], ["os.system", "kumo"]),
        (["model.sampling.max_token=3"], ["Did you mean max_tokens"]),
        (["model=simulated", "+model.sampling.beams=3"], ["beams", "max_tokens"]),
        (["suite=kumo", "suite.domains=[", "x"], ["suite.domains=["]),
        (["tracker.mode=online"], ["tracker"]),
        (["tracker=wandb", "tracker.mode=onlin"], ["tracker.mode=onlin", "offline, online"]),
        (["tracker=wandb", "+tracker.api_key=123"], ["tracker: unknown key api_key", "project"]),
        (["cluster.grace_seconds=abc"], ["cluster.grace_seconds=abc", "a number of seconds, above 0"]),
        (["cluster=5"], ["Config group override"]),
        (["cluster.replicas=true"], ["cluster.replicas=true", "an integer, from 1 up, or fit"]),
        (["model.sampling.temperature=hot"], ["model.sampling.temperature=hot", "a number"]),
        (["model.sampling.max_tokens=-5"], ["model.sampling.max_tokens=-5", "from 1 up"]),
        (["+model.sampling.stop=abc"], ["model.sampling.stop=abc", "a list"]),
        (["+model.sampling.top_p=2"], ["model.sampling.top_p=2", "at most 1"]),
        (["model.replica.gpus=two"], ["model.replica.gpus=two", "a number"]),
        (["+model.replica.nodes=0"], ["model.replica.nodes=0", "from 1 up"]),
        (["model.engine.max_num_seqs=0"], ["model.engine.max_num_seqs=0", "from 1 up"]),
        (["model=simulated", "model.engine.max_num_seqs=many"], ["model.engine.max_num_seqs=many", "an integer"]),
        (["+model.engine.temperature=1"], ["model.engine: unknown key temperature", "max_num_seqs"]),
        (["+model.dtype=float16"], ["model: unknown key dtype", "engine"]),
        (["+api_key=1"], ["unknown key api_key", "run_dir"]),
        (["baselines=random"], ["baselines=random", "a list"]),
        (["baselines=[randm]"], ["baselines=[randm]", "Did you mean random?"]),
        (["suite=kumo", "suite.repeats=many"], ["suite.repeats=many", "an integer"]),
        (["model=openai"], ["model.engine.model: is missing; set model.engine.model=..."]),
        (["suite.domains=???"], ["suite.domains: is missing; set suite.domains=..."]),
        (["stop.most=5"], ["stop.most: belongs to a rule; add stop=decided or stop=precise"]),
        (["stop=none", "delta=.1"], ["stop.delta: belongs to a rule"]),
        (["stop={kind: precise}"], ["stop: must be one name, as stop=NAME", "stop.KEY=VALUE"]),
        (["cluster=[1]"], ["cluster: must be one name"]),
        (["history={a: 1}"], ["history: cannot be set as a whole", "history.KEY=VALUE"]),
        (["baselines={a: 1}"], ["baselines: must be a list, not a mapping"]),
        (["baselines.5=random"], ["baselines.5: list index out of range"]),
        (["shard=1/1000000"], ["shard=1/1000000: holds none of the", "fewer shards"]),
        (["model=openai", "model.engine.model=m", "cluster.replicas=2"], ["cluster.replicas=2", "max_num_seqs"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_input_is_named_with_exit_code_2_and_nothing_is_written(capsys, tmp_path, overrides, named):
    run_dir = tmp_path / "run"
    code, _, err = run_here(capsys, "run", f"run_dir={run_dir}", *overrides)
    assert code == 2, err
    for text in named:
        assert text in err
    assert "Traceback" not in err
    assert not run_dir.exists()


@pytest.mark.slow
def test_a_name_that_no_file_can_have_is_bad_input(capsys, tmp_path):
    code, _, err = run_here(capsys, "run", f"run_dir={tmp_path / ('x' * 300)}", "suite=kidgym", "model=random")
    assert code == 2 and "too long" in err


@pytest.mark.parametrize("override", ["+model.engine.api_key=sk-1-secret", "model.engine.api_key_env=sk-1-secret"])
def test_a_key_in_the_overrides_is_refused_and_repeated_nowhere(capsys, tmp_path, override):
    run_dir = tmp_path / "run"
    code, out, err = run_here(capsys, "run", f"run_dir={run_dir}", "model=openai", "model.engine.model=m", override)
    assert code == 2 and "api_key_env" in err
    assert "sk-1-secret" not in out + err and not run_dir.exists()


@pytest.mark.parametrize("command", [["run"], ["run", "-m"], ["preregister", "--hypothesis=h", "--out=o"]])
@pytest.mark.parametrize(
    "override",
    [
        "model.engine.headers={x: '${oc.env:MYPASS}'}",
        "tracker.project=${oc.env:MYPASS}",
        "run_dir='${oc.decode:${oc.env:MYPASS}}'",
    ],
)
def test_an_override_that_reads_the_environment_is_refused(capsys, tmp_path, monkeypatch, command, override):
    monkeypatch.setenv("MYPASS", "hunter2")
    monkeypatch.chdir(tmp_path)
    code, out, err = run_here(capsys, *command, "model=openai", "model.engine.model=m", "tracker=wandb", override)
    assert code == 2 and "would be stored with the run" in err
    assert "hunter2" not in out + err and not list(tmp_path.iterdir())


def test_players_that_a_suite_cannot_make_are_an_error_of_its_settings(capsys, tmp_path):
    transcripts = f"suite.transcripts={tmp_path / 'nothing'}"
    code, _, err = run_here(capsys, "plan", *SMALL, "model=random", transcripts)
    assert code == 2 and err.startswith("error: suite.transcripts: ") and "cannot be read" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["run", "run_dir=" + "[" * 3000 + "]" * 3000], "nested too deep"),
        (["run", "-m", "run_dir=" + "[" * 3000 + "]" * 3000], "nested too deep"),
        (["run", "run_dir=h\udcff"], "no UTF-8"),
        (["plan", "run_dir=[a]", *SMALL], "run_dir=[a]: must be a string"),
        (["plan", "run_dir=true", *SMALL], "run_dir=true: must be a string"),
        (["plan", "shard=1/" + "9" * 5000], "must be i/n"),
        (["plan", "--detect=1e-200", *SMALL], "--detect 1e-200: must be from 0.0001 up"),
        (["plan", "--precision=1e-5", *SMALL], "--precision 1e-05: must be from 0.001 up"),
        (["preregister", "--hypothesis=h\udcff", "--out=o", *SMALL], "--hypothesis"),
        (["preregister", "--hypothesis=h", "--out=o", "--measure=sucess", *SMALL], "--measure sucess: neither"),
    ],
    ids=lambda value: " ".join(value)[:30].encode("ascii", "replace").decode() if isinstance(value, list) else None,
)
def test_odd_arguments_are_refused_on_one_line(capsys, tmp_path, monkeypatch, arguments, named):
    monkeypatch.chdir(tmp_path)
    code, _, err = run_here(capsys, *arguments)
    assert code == 2 and named in err and err.count("\n") == 1 and len(err) < 1000
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("size", ["0", "00"])
def test_a_terminal_of_no_columns_has_as_many_as_none(capsys, monkeypatch, size):
    for name in ("COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    code, expected, _ = run_here(capsys, "plan", *SMALL)
    for name in ("COLUMNS", "LINES"):
        monkeypatch.setenv(name, size)
    assert run_here(capsys, "plan", *SMALL)[:2] == (code, expected) == (0, expected) and "episodes" in expected


@pytest.mark.parametrize("host", ["a" * 80, ".."])
def test_a_host_that_can_have_no_name_is_refused(host):
    with pytest.raises(UserError, match="cannot listen on"):
        listen(host, 0)


def test_a_bad_domain_file_is_named_down_to_its_state(capsys, tmp_path):
    path = tmp_path / "medical.yaml"
    text = (ROOT / "envs/kumo/domains/medical.yaml").read_text()
    path.write_text(text.replace("  Influenza:", "  Plague:", 1))
    code, _, err = run_here(capsys, "run", "suite=kumo", f"suite.domains=[{path}]", f"run_dir={tmp_path / 'run'}")
    assert code == 2
    assert "domain 'medical', action 'Body Temperature', outcome '35.5 to 37.3': rules out 'Influenza'" in err
    assert not (tmp_path / "run").exists()


def test_a_plan_shows_cells_calls_and_tokens_and_writes_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run_here(capsys, "plan", *SMALL, "model=simulated")
    assert code == 0
    assert "medical" in out and "model calls" in out and "run directory: runs/kumo-simulated-" in out
    assert out.index("run directory:") < out.index("\nEpisodes\n"), "the total stands before the rows of all cells"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["report", "r", "--fulll"], "unrecognized arguments: --fulll. Did you mean --full?"),
        (["new", "task", "snake", "--foldr", "x"], "unrecognized arguments: --foldr x. Did you mean --folder?"),
        (["kumo", "generate", "medical", "o.jsonl", "--sede"], "Did you mean --seed?"),
    ],
)
def test_an_unknown_option_is_answered_with_the_nearest(capsys, words, said):
    code, _, err = run_here(capsys, *words)
    assert code == 2 and said in " ".join(err.split())


def test_report_of_what_is_no_run_is_refused(capsys, tmp_path):
    code, _, err = run_here(capsys, "report", str(tmp_path))
    assert code == 2 and "no run here" in err


@pytest.mark.ray
def test_shards_with_failures_are_disjoint_and_merge_to_the_whole(tmp_path, ray_cluster, capsys):
    common = [*SMALL, "model=simulated", "model.engine.max_model_len=700", "baselines=[oracle,random]"]
    whole = [episode.id for episode in load_settings(common).plan]
    runs = [tmp_path / "1", tmp_path / "2"]
    for part, run_dir in enumerate(runs, 1):
        shard = [*common, f"shard={part}/2", f"run_dir={run_dir}"]
        done = raycade("run", *shard, *ray_cluster)
        assert done.returncode == 0, done.stderr
        for name in ("simulated", "oracle", "random", "PromptTooLong"):
            assert name in done.stdout
        for name in ("config.yaml", "plan.parquet", "summary.json", "versions.json", "tables/kumo_success.md"):
            assert (run_dir / name).exists()
        code, _, err = run_here(capsys, "run", *shard)
        assert code == 0 and "nothing to play" in err
    parts = [{episode.id for episode in Run(run_dir).plan} for run_dir in runs]
    assert not parts[0] & parts[1] and parts[0] | parts[1] == set(whole)

    code, _, err = run_here(capsys, "merge", str(tmp_path / "all"), *map(str, [*runs, runs[0]]))
    assert code == 0, err
    rows = Run(tmp_path / "all").episodes().to_pylist()
    assert sorted(row["episode_id"] for row in rows) == sorted(whole)
    failed = [row["error"] for row in rows if row["status"] == "failed"]
    assert failed and all(re.match("PromptTooLong: the prompt has .*context 700", error) for error in failed)
    code, out, _ = run_here(capsys, "report", str(tmp_path / "all"))
    summary = json.loads((tmp_path / "all" / "summary.json").read_text())
    assert code == 0 and "Episodes" in out
    assert (summary["planned"], summary["failed"], summary["missing"]) == (24, len(failed), 0)


KEY = "sk-secret1secret2secret3"


@pytest.mark.parametrize(
    "words",
    [["plan", "--api-key", KEY], ["plan", f"--api-key={KEY}"], ["plan", f"model={KEY}"], ["report", KEY], [KEY]],
)
def test_no_error_repeats_a_key(capsys, words):
    code, out, err = run_here(capsys, *words)
    assert code == 2 and "error: " in err and KEY not in out + err


def test_no_error_repeats_a_secret_of_the_environment(monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "eight888")
    monkeypatch.setenv("OTHER_TOKEN", "seven77")
    monkeypatch.setenv("MY_WORD", "plain-text")
    assert without_keys("eight888 seven77 plain-text") == "[a key] seven77 plain-text"
