"""Several runs by one command: what a signal to stop, a bad run and an interrupt mean for the others."""

import errno
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from cluster.commands import sweep as module
from cluster.commands.report import Results
from cluster.errors import ResumableError, RunFailedError, UserError
from envs.printable import printable
from tests.cluster.test_cli import SMALL, run_here


@pytest.fixture
def sweep(monkeypatch, tmp_path, capsys):
    """A sweep over three models, one of the table, whose runs end with these codes; tells what was played and came out."""

    def play(*codes):
        played, ends = [], iter(codes)

        def run(settings):
            played.append(settings.model.name)
            if isinstance(code := next(ends), BaseException):
                raise code
            return code, Results([], {}, frozenset())

        monkeypatch.setattr(module, "run", run)
        monkeypatch.setattr(module, "_announce", lambda: None)  # its log handlers would outlive the test
        monkeypatch.chdir(tmp_path)
        code, _, err = run_here(capsys, "run", "-m", *SMALL, "model=qwen2_5_vl_7b,simulated,random")
        return played, code, err

    return play


@pytest.mark.parametrize(
    ("error", "kind", "folder"),
    [
        (OSError(errno.EROFS, "Read-only file system", "/here/multirun"), RunFailedError, "/here/multirun"),
        (OSError(errno.ENOSPC, "No space left on device"), RunFailedError, "multirun/ in the current one"),
        (OSError(errno.ENOTDIR, "Not a directory", "multirun/x"), UserError, "multirun/x"),
    ],
)
def test_a_sweep_whose_folder_cannot_be_written_names_it_and_its_setting(error, kind, folder, monkeypatch):
    def multirun(*_, **__):
        raise error

    monkeypatch.setattr(module.Hydra, "create_main_hydra2", lambda *_: SimpleNamespace(multirun=multirun))
    with pytest.raises(kind, match=f"^hydra.sweep.dir: .*{folder}.*: cannot be written: .*{error.strerror}"):
        module._launch(["model=random"])


@pytest.mark.parametrize("group", [None, "mine"])
def test_a_run_that_fails_stops_no_other_and_one_that_was_stopped_stops_all(monkeypatch, capsys, group):
    ends = [0, 1, RunFailedError("broken"), UserError("wrong \x1b[2J"), ResumableError("all is spent"), 0, 75]
    played, shown, left = [], [], list(ends)

    def run(settings):
        played.append(settings.run_dir)
        if isinstance(end := left.pop(0), Exception):
            raise end
        return end, f"results of {settings.run_dir}"

    words = iter(range(8))
    task = lambda: SimpleNamespace(overrides=SimpleNamespace(task=[f"++number={next(words)}", "model=a"]))  # noqa: E731
    monkeypatch.setattr(module, "HydraConfig", SimpleNamespace(get=task))
    monkeypatch.setattr(module, "settings_from_config", lambda config: SimpleNamespace(run_dir=config.run_dir))
    monkeypatch.setattr(module, "check_pictures", lambda settings: None)
    monkeypatch.setattr(module, "show_results", lambda settings, results: shown.append(results))
    monkeypatch.setattr(module, "run", run)
    play = module.Player("together")
    configs = [OmegaConf.create({"run_dir": str(number), "tracker": {"group": group}}) for number in range(8)]
    outcomes = [play(config) for config in configs]
    errors = ["", "", "broken", "wrong \x1b[2J", "all is spent", "", "", outcomes[7].error]
    codes, where = [0, 1, 1, 2, 75, 0, 75, 75], ["0", "1", "", "", "", "5", "6", ""]
    assert outcomes == [
        module.Outcome((f"number={number}", "model=a"), codes[number], where[number], errors[number], number >= 6)
        for number in range(8)
    ]
    assert played == [*"0123456"] and "not played" in outcomes[7].error
    assert shown == [f"results of {number}" for number in (0, 1, 5, 6)]
    assert {config.tracker.group for config in configs[:7]} == {group or "together"}
    for tracker in (None, {"type": "x"}):
        left.append(0)
        alone = module.Player("together")
        words = iter([9])
        config = OmegaConf.create({"run_dir": "9", "tracker": tracker})
        alone(config)
        assert config.tracker == tracker, "a tracker that knows no groups gets none"
    assert "error: wrong \\x1b[2J\n" in capsys.readouterr().err
    monkeypatch.setattr(module, "compose_config", lambda words: None)
    monkeypatch.setattr(module, "check_config", lambda config: None)
    monkeypatch.setattr(module, "offer_plugins", lambda *words: None)
    monkeypatch.setattr(module, "_announce", lambda: None)
    for some, code in ((outcomes[:4], 2), ([outcomes[4], outcomes[0]], 75), ([], 0)):
        monkeypatch.setattr(module, "_launch", lambda overrides, some=some: some)
        assert module.multirun(["model=a"]) == code
        said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("  ")]
        assert said == [
            f"  {each.overrides[0]}: exit code {each.code}: {printable(each.error or each.where)}" for each in some
        ]


@pytest.mark.slow
def test_an_interrupt_between_the_play_ends_the_sweep_without_a_trace(sweep):
    played, code, err = sweep(KeyboardInterrupt())
    assert (played, code) == (["qwen2_5_vl_7b"], 130)
    assert err.endswith("interrupted\n") and "Traceback" not in err


@pytest.mark.parametrize(
    "secret",
    [
        "+model.engine.api_key=sk-1",
        "+model.engine.api_key=sk-1,sk-2",
        "model.engine.api_key_env=sk-1",
        "+model.engine.proxy_login=sk-1",
        "+credentials=sk-1",
    ],
)
def test_a_secret_in_the_overrides_of_a_sweep_is_written_nowhere(tmp_path, monkeypatch, capsys, secret):
    monkeypatch.chdir(tmp_path)
    code, out, err = run_here(capsys, "run", "-m", "model=openai", "model.engine.model=a,b", secret)
    assert code == 2
    assert "sk-1" not in out + err and list(tmp_path.iterdir()) == []


@given(st.permutations(["suite=kumo", "model=a,b", "suite.seed=1,2"]))
def test_a_multirun_that_is_started_again_is_of_the_same_group_whatever_the_order_of_its_words(words):
    assert module._group(words) == module._group(sorted(words)) != module._group(words[1:])
