"""What long functions do, step by step: whom they call with what, in which order, on which way, as on record."""

import argparse
import asyncio
import contextlib
import dataclasses
import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster import stop_signals
from cluster.checkpoints import hosted
from cluster.commands import list_models, play, report, run, serve, sweep, view
from cluster.engines import template_files, template_trial, vllm, vllm_chat
from cluster.engines.base import EngineError, Sampling
from cluster.engines.prompt_check import Arrangement, WrongPromptError
from cluster.errors import ResumableError, RunFailedError, UserError
from cluster.suite_commands.kumo import stages
from evals.stats.intervals import Estimate
from evals.tables import Table
from evals.types import Message, PlayerError, message
from tests.cluster.openai_api.test_requests import Dot
from tests.said import Said, Thing


@pytest.fixture
def said(capsys, tmp_path):
    return Said(capsys, tmp_path)


def stand_ins(monkeypatch, said, module, names, **others):
    """Put things in place of what a module calls; others are given."""
    for name in names.split():
        monkeypatch.setattr(module, name, Thing(said, name))
    for name, value in others.items():
        monkeypatch.setattr(module, name, value)


def raising(said, name, error):
    def raised(*given, **named):
        said(f"-> {name} raises")
        raise error

    return raised


def test_steps_of_a_run(said, monkeypatch):
    names = "check_environment check_inline _check_answering make_tracker _check_spending agreed_rule keep _print_resume_status"
    names += " _warn_of_name _check_versions first_of_retry _complete score_run"
    names += " final_results unscored_results _send_again tracked_id"
    broken = UserError("no rule")
    for name, changed in {
        "plain": {},
        "nothing to play": {"todo": []},
        "in this process": {"ray": False, "engine": None, "local": False, "wasted": "4 GPUs idle"},
        "with all": {"preregistration": "file", "tracker": {"type": "t"}, "failure": "it fell", "retry_failed": True},
        "failure without tracker": {"failure": "it fell", "spent": None},
        "stopped": {"play": True},
        "stopped before": {"play": stop_signals.StoppedError("SIGTERM")},
        "wrong model": {"play": UserError("no such model")},
        "full disk": {"play": OSError("full")},
        "closed pipe": {"play": BrokenPipeError("closed")},
        "fails": {"play": RunFailedError("broken")},
        "wrong rule": {"agreed_rule": broken},
        "begun meanwhile": {"meanwhile": True},
        "a person at the wrong command": {"person": True, "by": None},
        "a person": {"person": True},
    }.items():
        case = {"todo": ["one"], "ray": True, "engine": {"e": 1}, "local": True, "wasted": "", "failure": ""}
        case |= {"preregistration": None, "tracker": None, "retry_failed": False, "spent": 2.5, "play": False}
        case |= {"meanwhile": False, "person": False, "by": "play" if name == "a person" else None} | changed
        said(f"--- {name}")
        stand_ins(monkeypatch, said, run, names)
        monkeypatch.setattr(run, "real_path", lambda path: path)
        model = Thing(said, "model", name="m", engine=case["engine"], replica=SimpleNamespace(gpus=2.0, nodes=3))
        settings = Thing(
            said,
            "settings",
            model=model,
            config="suite: {a: 1}",
            run_dir="DIR",
            preregistration=case["preregistration"],
        )
        settings.tracker, settings.retry_failed = case["tracker"], case["retry_failed"]
        settings.cluster = Thing(said, "cluster", ray=case["ray"], gpu_hour_price=1.5)
        directory = Thing(said, "directory", begun=False, spent=case["spent"], path="DIR")
        meant = case["meanwhile"]
        directory.claim = said.calls("claim", lambda *, to=directory, meant=meant: setattr(to, "begun", meant))

        def ended(*given, case=case):
            said("-> plays", given[1], given[2], given[2].attempts)
            if isinstance(case["play"], BaseException):
                raise case["play"]
            return case["play"]

        stand_ins(
            monkeypatch,
            said,
            run,
            "",
            RunDirectory=said.calls("RunDirectory", directory),
            with_commit=said.calls("with_commit", settings),
            check_parallel=said.calls("check_parallel", case["wasted"]),
            Watcher=said.calls("Watcher", Thing(said, "watcher", failure=case["failure"])),
            RunStatistics=said.calls("RunStatistics", Thing(said, "stats")),
            Progress=said.calls("Progress", Thing(said, "progress")),
            read_by=said.calls("read_by", contextlib.nullcontext()),
            scan_resume=said.calls("scan_resume", Thing(said, "resume", todo=case["todo"])),
            is_human=lambda name, case=case: case["person"],
            play_on_cluster=ended,
            play_inline=lambda *given, ended=ended: (said("inline"), ended(*given))[1],
            plays_locally=lambda settings, case=case: case["local"],
            _write_results=said.calls("_write_results", Thing(said, "results")),
            _code=said.calls("_code", 0),
        )
        if "agreed_rule" in changed:
            monkeypatch.setattr(run, "agreed_rule", raising(said, "agreed_rule", changed["agreed_rule"]))
        try:
            said("=", run.run(settings, ended if case["by"] else None))
        except (Exception, stop_signals.StoppedError) as error:
            said("=", repr(error))
    said.check("steps_run")


def test_steps_around_a_run(said, monkeypatch, tmp_path):
    hints = [
        SimpleNamespace(name="performance", notes=("set more", "or less")),
        SimpleNamespace(name="x", notes=("no",)),
    ]
    results = Thing(said, "results", tables=hints, status=["said"], written=True)
    unwritten = Thing(said, "unwritten", tables=[], status=[], written=False)
    stand_ins(monkeypatch, said, run, "say_status show_summary")
    (tmp_path / "there").mkdir()
    for folder in ("there", "gone"):
        settings = Thing(said, "settings", run_dir=tmp_path / folder, stop=None if folder == "gone" else "rule")
        for end in ((0, results), (1, unwritten), (75, None), RunFailedError("bad \x1b"), ResumableError("spent")):
            done = raising(said, "run", end) if isinstance(end, Exception) else said.calls("run", end)
            monkeypatch.setattr(run, "run", done)
            said("=", run.run_and_show(settings, "play"))
    stand_ins(monkeypatch, said, run, "check_journal score_run write_results")
    for engine, metered in (
        (None, True),
        ({"spend_cap": 0}, True),
        ({"spend_cap": None}, True),
        ({}, True),
        ({}, False),
    ):
        run._check_spending(Thing(said, "model", engine=engine, metered=metered), Thing(said, "run"))
    directory = Thing(said, "directory", session="now")
    for todo, retry in (([], ()), ([], ("a", "b")), (["x"], ("a", "b"))):
        run._complete(directory, SimpleNamespace(todo=todo, retry=retry))
    directory.compact = raising(said, "compact", OSError("full"))
    run._complete(directory, SimpleNamespace(todo=["x"], retry=()))
    monkeypatch.setattr(run, "write_results", raising(said, "write", OSError("full")))
    scored = report.Results([], {}, frozenset())
    said(run._write_results(Thing(said, "a run", path="RUN"), scored))

    @contextlib.contextmanager
    def counted():
        yield
        said("no longer counted")

    class Progress(Thing):
        def __enter__(self):
            return self

        def __exit__(self, *error):
            said("progress ends", error[0])

    signals = Thing(said, "signals", counted=counted, received=[])
    stand_ins(monkeypatch, said, hosted, "note_session HostedPool Driver", stop_signals=signals)
    host = hosted.HostedEngine()
    host.close()
    given = ("settings", "todo", "directory", "stats", Progress(said, "progress"), "watcher")
    for error, stopped in ((None, []), (None, [15]), (RunFailedError("died"), [15]), (UserError("wrong"), [])):
        signals.received = stopped
        ends = iter([error, None])

        def loop(what, ends=ends):
            said("-> loop runs", getattr(what, "__name__", what))
            if asyncio.iscoroutine(what):
                what.close()
            found = next(ends)
            if found is not None:
                raise found

        host._loop = Thing(said, "loop", run=loop)
        try:
            said("=", host.play(*given))
        except (RunFailedError, UserError) as caught:
            said("=", repr(caught))
    host.close()
    stand_ins(monkeypatch, said, run, "actors capacity note_session Driver ray", stop_signals=signals)
    monkeypatch.setattr(run, "asyncio", Thing(said, "asyncio"))
    for local, address, stopped in ((True, None, []), (False, None, [15]), (False, "host:1", [])):
        signals.received = stopped
        monkeypatch.setattr(run, "plays_locally", lambda settings, local=local: local)
        settings = Thing(said, "settings", cluster=Thing(said, "cluster", address=address))
        given = (settings, "todo", "directory", "stats", Progress(said, "progress"), "watcher")
        said("=", run.play_on_cluster(*given))
    monkeypatch.setattr(run, "Driver", raising(said, "Driver", UserError("wrong")))
    said.tried("=", run.play_on_cluster, *given)
    said.check("steps_around_run")


def test_steps_of_those_who_play(said, monkeypatch):
    person, other = SimpleNamespace(player="human"), SimpleNamespace(player="oracle")

    @contextlib.contextmanager
    def raised():
        yield

    async def asked(*given):
        said("-> ask", given[:3])
        given[3](SimpleNamespace(error="", episode="one"))
        return given[2] == [person, person]

    stand_ins(monkeypatch, said, play, "ledger_columns sound_rows", _ask=asked, is_human=lambda name: name == "human")
    monkeypatch.setattr(play.stop_signals, "raised", raised)
    monkeypatch.setattr(play.StopWatch, "of", lambda directory, balanced: play.StopWatch(None, None))
    for todo, left in (
        ([person], False),
        ([other, person, person], False),
        ([other], True),
        ([], True),
        ([person, other], True),
    ):
        monkeypatch.setattr(play, "play_on_cluster", said.calls("play_on_cluster", left))
        given = [Thing(said, name) for name in ("settings", "directory", "stats", "progress", "watcher")]
        said("=", play._play(Thing(said, "options"), given[0], todo, *given[1:]))
    for code in (0, 75, 1):
        stand_ins(monkeypatch, said, play, "load_settings play_overrides report", run_and_show=said.calls("run", code))
        said("=", play.main(Thing(said, "options")))

    @contextlib.contextmanager
    def counted():
        yield

    async def offered(*given):
        said("-> offer", given)

    stand_ins(monkeypatch, said, serve, "Web token_of over_http check_pictures")
    monkeypatch.setattr(serve, "offer", offered)
    monkeypatch.setattr(serve.socket, "gethostname", lambda: "here")
    listener = SimpleNamespace(getsockname=lambda: ("", 8080))
    monkeypatch.setattr(serve, "listen", said.calls("listen", listener))
    for stdio, host, tools, file, engine in (
        *((False, "127.0.0.1", None, None, None), (False, "0.0.0.0", "tools", Path("a b"), {"feedback": True})),
        *((True, "localhost", "tools", None, {"feedback": False}), (False, "localhost", "tools", None, {})),
    ):
        found = Thing(said, tools) if tools else None
        monkeypatch.setattr(serve, "_tools", said.calls("_tools", found))
        options = argparse.Namespace(stdio=stdio, host=host, port=1, token_file=file, output="output")
        settings = Thing(said, "settings", model=SimpleNamespace(name="agent-x", engine=engine))
        rest = (Thing(said, name) for name in ("commits", "stopping", "progress"))
        asyncio.run(serve._serve(options, settings, Thing(said, "games", left=3), *rest))
    for port, name in ((1, "player"), (2, "")):
        said.tried(port, serve._name_given, {"player": name}, "player")
    said.check("steps_play")


def test_steps_of_a_report_and_a_sweep(said, monkeypatch, tmp_path):
    shown = lambda name, **more: Thing(said, name, **more)  # noqa: E731
    results = [shown(f"results {n}", status=[f"status {n}"]) for n in range(2)]
    joint = shown("joint", runs=[SimpleNamespace(name="A"), SimpleNamespace(name="B")])
    stand_ins(
        monkeypatch,
        said,
        report,
        "show show_summary say_status _write make_suite",
        Run=lambda path: shown(f"run {path}", path=path),
        read_runs=lambda runs, read: read(),
        _joint=said.calls("_joint", joint),
        _contents=said.calls("_contents", {Path("x"): b"y"}),
    )
    for count, full, obstacle in ((1, True, ""), (2, False, ""), (2, True, "busy"), (1, False, "busy")):
        scored = iter(results)
        obstacles = iter([obstacle, ""])
        monkeypatch.setattr(report, "_score", said.calls("_score", lambda *given: next(scored)))
        monkeypatch.setattr(
            report, "_write_if_current", said.calls("_write_if_current", lambda *given: next(obstacles))
        )
        joint.runs = joint.runs[:count] if count == 1 else [SimpleNamespace(name="A"), SimpleNamespace(name="B")]
        files = report.Files(html=Path("p.html"), figures=Path("f")) if full else None
        report.report([Path(name) for name in "ab"[:count]], full, files, ["N"] * (count == 1))
    for files in ({}, {"html": Path("a.txt")}, {"html": tmp_path}, {"html": Path("a.htm"), "latex": Path("l")}):
        for paths, names in (("ab", ""), ("ab", "xy"), ("ab", "xx"), ("ab", "x"), ("aa", ""), ("a", "x")):
            dirs = [tmp_path / path for path in paths]
            said.tried(f"{files} {paths} {names}", report._check_asked, dirs, report.Files(**files), list(names))
        said([str(path) for path in report.Files(**files).wanted])
    report.write_files(Path("folder"), {"a": b"1", "b/c": b"2"})

    class Launched:
        @classmethod
        def create_main_hydra2(cls, *given):
            said("-> hydra", given[0])
            return cls()

        def multirun(self, name, player, overrides, with_log_configuration):
            said("-> multirun", name, player._group, overrides, with_log_configuration)
            if isinstance(ends, Exception):
                raise ends
            return [[SimpleNamespace(return_value=number) for number in batch] for batch in ends]

    submitit = type("FailedJobError", (Exception,), {"__module__": "submitit.core"})
    stand_ins(monkeypatch, said, sweep, "version create_config_search_path", Hydra=Launched)
    for ended in (
        *([[1, 2], [3]], [], submitit("job 7 died"), KeyError("other"), sweep.HydraException("odd")),
        sweep.HydraException("Could not find 'hydra/launcher/submitit_slurm'"),
    ):
        ends = ended
        try:
            said("=", sweep._launch(["b=1,2", "suite.a=1"]))
        except (UserError, KeyError) as error:
            said("=", repr(error))
    outcomes = [sweep.Outcome(tuple(each.split()), 0) for each in ("a=1 b=2 c=3", "a=1 c=3 b=3", "c=3 a=1")]
    said([sweep._names_of(outcomes[:count]) for count in range(4)], sweep._names_of(outcomes[:1] * 2))
    for words in (["a=1,2", "b=3,4", "hydra/launcher=slurm", "hydra.sweep.dir=x"], ["+a=[1,2]", "~b"], ["a=1,,2"]):
        said.tried(words[0][:9], lambda words=words: list(sweep._combinations(words)))
    for handled in (False, True):
        logger = Thing(said, "logger", handlers=["one"] * handled)
        monkeypatch.setattr(sweep, "logging", Thing(said, "logging", getLogger=said.calls("getLogger", logger)))
        sweep._announce()
    stand_ins(
        monkeypatch,
        said,
        sweep,
        "compose_config check_config offer_plugins _announce",
        _launch=said.calls("_launch", lambda overrides: outcomes if len(overrides) > 1 else []),
    )
    outcomes = [sweep.Outcome(("a=1", "c=3"), 0, "runs/1"), sweep.Outcome(("a=2", "c=3"), 75, "runs/2", "it\x1bfell")]
    outcomes.append(sweep.Outcome(("a=3", "c=3"), 1, "runs/3"))
    said("=", sweep.multirun(["a=1,2,3", "c=3"]), sweep.multirun(["c=3"]))
    stand_ins(monkeypatch, said, list_models, "show count_gpus")
    tables = iter(["a table"])
    monkeypatch.setattr("cluster.models.prove.prove_here", said.calls("prove_here", lambda name: next(tables)))
    list_models.main(argparse.Namespace(prove="org/m"))
    (tmp_path / "model").mkdir()
    for name, engine in {
        "b": "null",
        "a": "{type: vllm}",
        "c": "{type: own, api_key_env: A_KEY}",
        "d": "{type: own, api_key_env: NO_KEY}",
        "e": "{type: own, api_key_env: NO_KEY, base_url: h}",
    }.items():
        (tmp_path / "model" / f"{name}.yaml").write_text(f"engine: {engine}\n")
    (tmp_path / "model" / "notes.txt").write_text("engine: no")
    monkeypatch.setattr(list_models, "resources", SimpleNamespace(files=said.calls("files", tmp_path)))
    monkeypatch.setattr(list_models, "names_without_file", said.calls("names_without_file", ["x", "w"]))
    for spec in (None, "there"):
        monkeypatch.setattr(
            list_models, "importlib", SimpleNamespace(util=SimpleNamespace(find_spec=lambda name, spec=spec: spec))
        )
        said(list_models.list_others(2, {"A_KEY": "k", "NO_KEY": ""}))
    said.check("steps_report_and_sweep")


def test_steps_of_scored_results(said, monkeypatch, tmp_path):
    modules = {
        "evals.archive.one_file": {"one_file": lambda page: f"file of {page}é"},
        "evals.report.build": {
            "page_of": lambda joint: f"page of {joint}",
            "latex_files": lambda joint: {"a.tex": f"{joint}é", "b.tex": ""},
            "figure_files": lambda figures, look: {"f.svg": f"{figures} as {look}".encode()},
        },
        "evals.report.panels": {"Look": lambda width, radar: f"look {width} {radar}"},
    }
    for name, held in modules.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**held))
    joint = Thing(said, "joint", figures=lambda: "figures")
    for files in (
        *({}, {"width": "text"}, {"html": Path("p.html")}, {"latex": Path("l")}),
        {"html": Path("p.html"), "latex": Path("l"), "figures": Path("f"), "width": "text", "radar": True},
    ):
        said(report._contents(joint, report.Files(**files)))
    tables = [
        Table("scores", "Scores", ("x", "success"), (("a", 1), ("b", Estimate(0.5, 0.25, 0.75, 9))), ("Note.",)),
        Table("counts", "Counts", ("x", "n"), (("a", 1),)),
        Table("usage", "Usage", ("x",), ((Estimate(1.0, 0.0, 2.0, 3),),)),
    ]
    summary = {"planned": 30, "done": 29, "tables": [{"name": "scores"}, {"name": "counts"}]}
    scored = report.Results(tables, summary, frozenset({"p"}), ("warned",), ["said"])
    for lines, stopped in (
        ([], True),
        (["stopped: after 9 games"], True),
        (["open", "decided: A of KUMO"], False),
        (None, 0),
    ):
        state = None
        if lines is not None:
            state = SimpleNamespace(lines=lambda lines=lines: lines, stopped=stopped, to_json=lambda: {"rule": 1})
        found = report._with_stopping(
            scored,
            SimpleNamespace(stopping=state, planned=range(1234)),
            SimpleNamespace(stopping=("stopped elsewhere",)),
        )
        said(found.status, found.warnings, found.parts, found.summary)
        said(*((table.name, table.notes) for table in found.tables))
    (tmp_path / "episodes").mkdir()
    (tmp_path / "episodes" / "p.parquet").touch()
    for error, parts, full in (
        *((None, {"p.parquet"}, None), (None, {"p.parquet", "q.parquet"}, None), (None, set(), None)),
        *((UserError("another driver"), set(), None), (RunFailedError("gone"), set(), None)),
        (None, {"p.parquet"}, OSError("full")),
    ):
        directory = Thing(said, "directory", parts=tmp_path / "episodes")
        directory.claim = raising(said, "claim", error) if error else said.calls("claim")
        stand_ins(monkeypatch, said, report, "", RunDirectory=said.calls("RunDirectory", directory))
        writes = raising(said, "write", full) if full else said.calls("write_results")
        monkeypatch.setattr(report, "write_results", writes)
        said("=", report._write_if_current(SimpleNamespace(path="RUN"), Thing(said, "results", parts=frozenset(parts))))
    said.check("steps_results")


async def test_steps_of_preparing_a_vllm_engine(said, monkeypatch):
    for name, changed in {
        "plain": {},
        "pictures": {"pictures": True, "limits": {"image": 3}, "system_role": "user", "keeps_reasoning": True},
        "hybrid": {"hybrid": True, "shared": True, "vllm": {"prefix_match_unit": 32, "reasoning_parser": "own"}},
        "hybrid without beginnings": {"hybrid": True, "cached": False, "chat_template": "T"},
        "shared, but not hybrid": {"shared": True, "answers": False},
        "open thought": {"opened": "<think>", "chat_template_kwargs": {"thinking": True}},
        "parsed thought": {"opened": "<think>", "parsed": True, "answers": False},
        "refused": {"pictures": True, "error": PlayerError("two tokens")},
    }.items():
        case = {"pictures": False, "limits": None, "hybrid": False, "shared": False, "cached": True, "opened": ""}
        case |= {"parsed": False, "answers": True, "error": None} | changed
        given = {key: case[key] for key in ("vllm", "system_role", "keeps_reasoning") if key in case}
        given |= {key: case[key] for key in ("chat_template", "chat_template_kwargs") if key in case}
        said(f"--- {name}")

        async def facts_of(engine):
            return {"of": engine}

        async def complete(engine, request, start, most, error=case["error"]):
            said("-> asks", request.id, most, request.labels, request.options, [*request.chat])
            if error is not None:
                raise error

        chat = Thing(said, "chat", multimodal=case["pictures"], rendered=said.calls("rendered", {"prompt": "PROMPT"}))
        opened = said.calls("opened", case["opened"])
        stand_ins(
            monkeypatch,
            said,
            vllm,
            "ChatTokens HitWatch SharedBeginnings",
            facts_of=facts_of,
            VLLMChat=said.calls("VLLMChat", chat),
            reads_pictures=said.calls("reads_pictures", case["pictures"]),
            Reasoning=said.calls("Reasoning", Thing(said, "reasoning", parsed=case["parsed"], opened=opened)),
            answers_next=said.calls("answers_next", case["answers"]),
            executor=lambda gpus: gpus,
        )
        monkeypatch.setattr(vllm.VLLMEngine, "_complete", complete)
        engine = vllm.VLLMEngine(
            Sampling(), "m", limit_mm_per_prompt=case["limits"], shared_beginnings=case["shared"], **given
        )
        config = SimpleNamespace(max_model_len=4096, **({"is_hybrid": True} if case["hybrid"] else {}))
        cache = SimpleNamespace(block_size=16, enable_prefix_caching=case["cached"])
        engine._engine = Thing(said, "vllm", model_config=config, vllm_config=SimpleNamespace(cache_config=cache))
        try:
            await engine._prepare()
        except PlayerError as error:
            said("refused", error)
        said(engine.facts, engine.max_model_len, engine._tokens, engine._chat, engine._hits, engine._beginnings)
        said.lines.append("")
    said.check("steps_vllm")


def test_steps_of_chats_for_vllm(said, monkeypatch, caplog):
    wrong = template_files.TemplateError("no such variable")
    plain, other = Arrangement("user"), Arrangement("user", "string", True, "field")
    shown = (message("user", Dot(9), "Look:", Dot(9)), Message("assistant", ("A",), "Hm."))
    for name, case in {
        "plain": {},
        "template of its own": {"template": "T", "arguments": {"thinking": True}, "found": other, "keeps": True},
        "no template": {"hf": False, "pictures": False},
        "tekken": {"tekken": True, "hf": False},
        "variable": {"error": wrong},
        "lost words": {"lost": WrongPromptError("words are missing")},
        "lost reasoning": {"lost": WrongPromptError("a thought is missing"), "keeps": True},
    }.items():
        case = {"template": None, "hf": True, "tekken": False, "pictures": True, "keeps": False, "error": None} | case
        case = {"found": plain, "lost": None, "arguments": {}} | case
        said(f"--- {name}")
        caplog.clear()
        config = SimpleNamespace(multimodal_config=SimpleNamespace() if case["pictures"] else None)

        def render(messages, settings, config=config):
            given = {key: value for key, value in settings.items() if key != "chat_template_kwargs"}
            more = {key: value for key, value in settings["chat_template_kwargs"].items() if key != "strftime_now"}
            said("-> render", messages, given, more, vars(config.multimodal_config or SimpleNamespace()))
            return None, {"prompt": "PROMPT"}

        own = Thing(said, "tokenizer", version=13)
        own.apply_chat_template = said.calls("apply_chat_template", [1, 2])
        renderer = Thing(said, "renderer", tokenizer="own", model_config=config, render_messages=render)
        renderer.get_tokenizer = lambda own=own: own
        hf = SimpleNamespace(HfRenderer=Thing if case["hf"] else Said)
        hf.resolve_chat_template = said.calls("resolve", "own template")
        renderers = SimpleNamespace(hf=hf, ChatParams=lambda **given: given)
        monkeypatch.setitem(sys.modules, "vllm.renderers", renderers)

        def choose(render, pictures, tried, marks, case=case):
            said("-> choose", pictures, tried[:2], len(tried), marks)
            if case["lost"]:
                raise case["lost"]
            return case["found"], "mark"

        checks = said.calls("check_arguments") if not case["error"] else raising(said, "check", case["error"])
        stand_ins(
            monkeypatch,
            said,
            vllm_chat,
            "check_own_rendering check_prompt",
            is_tekken=said.calls("is_tekken", case["tekken"]),
            check_arguments=checks,
            keeping_arguments=said.calls("keeping_arguments", {"keep": True}),
            marks_in=said.calls("marks_in", ("<", ">")),
            choose_arrangement=choose,
            data_url=lambda picture: "DATA",
            _image=lambda picture: "IMAGE",
        )
        tokens = Thing(said, "tokens", encode=lambda text: [1, 2])
        made = vllm_chat.VLLMChat("m", renderer, tokens, case["pictures"], case["arguments"], case["template"])
        try:
            said("=", made.arrange("user", 3, case["keeps"]))
            chat = shown if case["pictures"] else (message("system", "Play."), message("user", "A"))
            said(made.rendered(chat), made.check_ids(chat))
            tokens.encode = lambda text: [2, 1]
            made.check_ids(chat)
        except EngineError as error:
            said("=", error)
        said([record.getMessage() for record in caplog.records])
    said.check("steps_vllm_chat")


def test_steps_of_trying_a_template(said, monkeypatch, tmp_path):
    (tmp_path / "statm").write_text("1000 2 3\n")
    resource = Thing(said, "resource", RLIMIT_AS="AS", RLIMIT_CPU="CPU", RUSAGE_SELF=0, getpagesize=lambda: 4096)
    resource.getrusage = lambda who: (1.25, 1.5, 99.0)

    def ended(code):
        said("-> exit", code)
        raise SystemExit

    monkeypatch.setattr(template_trial, "resource", resource)
    monkeypatch.setattr(template_trial, "Path", lambda name: tmp_path / Path(name).name)
    monkeypatch.setattr(template_trial.os, "_exit", ended)
    monkeypatch.setattr(template_trial, "marks_in", said.calls("marks_in", "marks"))
    for asked, wrong, error in (
        *(([3, "auto", True], False, None), ([0, "user", False], True, None)),
        *(([0, "user", False], False, ValueError("odd")), ([0, "user", False], False, MemoryError())),
    ):

        def render(chat, arrangement, error=error):
            said("-> renders", chat, arrangement)
            if error is not None:
                raise error

        def choose(render, pictures, tried, marks, wrong=wrong, error=error):
            said("-> choose", pictures, tried[0], len(tried), marks)
            if wrong:
                raise WrongPromptError("lost")
            if error is None:
                render("chat", "arrangement")

        monkeypatch.setattr(template_trial, "choose_arrangement", choose)
        template = Thing(said, "template", text="TEXT", render=render)
        monkeypatch.setattr(template_trial, "StoredTemplate", said.calls("StoredTemplate", template))
        with contextlib.suppress(SystemExit):
            template_trial.main({"text": "TEXT", "values": {"a": 1}, "asked": asked})
            said("ended")
    said.check("steps_template_trial")


def test_steps_of_the_viewer(said, monkeypatch, tmp_path):
    names = "_Finder server_config uvicorn"
    for given in (
        *(
            {},
            {"share": 0.0},
            {"share": 1.5},
            {"share": 0.5},
            {"failed": True},
            {"export": "OUT"},
            {"runs": 0},
            {"runs": 2},
            {"runs": 2, "episode": "abc"},
        ),
        *(
            {"export": "OUT", "share": 0.25, "failed": True},
            {"no_token": True},
            {"episode": "abc"},
            {"episode": "run/abc"},
        ),
        *({"host": "0.0.0.0", "run_dirs": ["a"], "runs": 2}, {"host": "::1", "no_token": True, "episode": "x y"}),
    ):
        options = {
            "share": 1.0,
            "failed": False,
            "export": None,
            "no_token": False,
            "episode": "",
            "host": "Localhost",
            "port": 7,
        }
        options |= {"run_dirs": [], "runs": 1} | given
        index = Thing(
            said,
            "index",
            runs=[Thing(said, f"run {n}", name=f"r{n}", path=f"runs/r{n}") for n in range(options["runs"])],
        )
        said(f"--- {given}")
        with monkeypatch.context() as patch:
            stand_ins(patch, said, view, names, write_pages=said.calls("write_pages"))
            patch.setattr(view, "EpisodeIndex", said.calls("EpisodeIndex", index))
            patch.setattr(view, "user_name", lambda: "user")
            patch.setattr(view.secrets, "token_urlsafe", lambda count: f"token{count}")
            patch.setattr(socket, "gethostname", lambda: "HERE")
            patch.setattr(view, "listen", said.calls("listen", SimpleNamespace(getsockname=lambda: ("", 8080))))
            patch.setattr(view, "ViewerNotes", said.calls("notes", Thing(said, "notes", routes=lambda: ["of notes"])))
            patch.setattr(view, "StudyPage", said.calls("study", Thing(said, "study", routes=lambda: ["of studies"])))
            patch.setattr(view, "make_app", said.calls("make_app", Thing(said, "app")))
            viewer = Thing(said, "viewer", watch=lambda: said("-> watch"))
            patch.setattr(view, "Viewer", lambda *given: said("Viewer", given[:2], given[2]()) or viewer)
            said.tried("=", view.main, argparse.Namespace(**options))
    stand_ins(
        monkeypatch, said, view, "check_new read_sessions", Run=lambda path: SimpleNamespace(config=f"config of {path}")
    )
    monkeypatch.setattr(view, "whole_or_nothing", lambda folder: contextlib.nullcontext(f"unfinished {folder}"))
    written = SimpleNamespace(files=1234, bytes=1_284_567, listed=2000, opened=30, lost_pictures=3)
    index.runs[0].damage, index.runs[0].unopened = {"part-1": "torn", "part-2": "odd"}, []
    index.runs[0:] = [index.runs[0], Thing(said, "whole", name="w", path="runs/w", damage={}, unopened=[])]
    for done in (
        said.calls("export", written),
        raising(said, "export", ValueError("bad")),
        raising(said, "export", OSError("full")),
    ):
        monkeypatch.setattr(view, "export", done)
        said.tried("=", view.write_pages, index, Path("OUT"), 0.5, True)
    for name in ("10", "9", "b", "a"):
        (tmp_path / "study" / name).mkdir(parents=True)
        (tmp_path / "study" / name / "plan.parquet").touch()
    said(*(view._runs_in(tmp_path / each) for each in ("study", "study/9", "none")))
    said.check("steps_view")


@dataclasses.dataclass(frozen=True, repr=False)
class Stage:
    """A pipeline's suite at one stage, with the items that its name stands for."""

    stage: str = "propose"
    round: int = 1
    left: str = "propose configure write check revise"
    domains: tuple = ()
    rounds: int = 3
    name: str = "pipeline"
    proposals: int = 8
    tasks_per_domain: int = 2
    repairs: int = 4
    difficulty: str = "easy"
    truths: int = 12
    actions: int = 9

    def __repr__(self):
        return f"{self.stage} {self.round} of {self.rounds} {self.domains}, left: {self.left}"

    @property
    def items(self):
        return [SimpleNamespace(number=number) for number in range(3 * (self.stage in self.left.split()))]


def test_steps_of_kumo_s_pipeline(said, monkeypatch, tmp_path):
    estimates = SimpleNamespace(of=None)
    stand_ins(
        monkeypatch, said, stages, "show joined stage_table estimate_table", Run=lambda path: Thing(said, f"run {path}")
    )
    monkeypatch.setattr(stages, "read_runs", lambda runs, read: read())
    estimates.of = lambda stage, items, repairs, count=None: SimpleNamespace(
        stage=stage, items=len(items), repairs=repairs, count=count
    )
    monkeypatch.setattr(stages, "Estimate", estimates)
    monkeypatch.setattr(stages, "sample_items", lambda *given: said("sample", *given) or [1, 2])
    monkeypatch.setattr(stages, "load_settings", lambda overrides: overrides)
    refused = [f"no {number}\x1b" for number in range(12)]
    for name, suite, code, complete, shown in (
        *(
            ("make", Stage(), 0, True, 0),
            ("write", Stage(), 0, True, 12),
            ("check", Stage(), 0, True, 10),
            ("make", Stage(rounds=1), 0, True, 11),
        ),
        *(
            ("write", Stage(left="write"), 0, True, 0),
            ("write", Stage(left=""), 0, True, 0),
            ("make", Stage(left="propose"), 0, True, 0),
        ),
        *(
            ("make", Stage(domains=("d",)), 0, True, 0),
            ("revise", Stage(), 75, True, 0),
            ("make", Stage(), 0, False, 0),
        ),
        *(
            ("revise", Stage(left="check"), 0, True, 0),
            ("write", Stage(domains=("d",)), 0, None, 0),
            ("check", Stage(left=""), 0, True, 0),
            ("make", Stage(left="propose"), 0, None, 0),
            ("make", Stage(left="propose"), 75, None, 0),
            ("make", Stage(left="propose"), 0, False, 0),
            ("make", Stage(left="propose", domains=("d", "e", "f")), 0, False, 0),
            ("check", Stage(rounds=2), 0, True, 0),
        ),
    ):
        done = (
            None
            if complete is None
            else Thing(
                said,
                "done",
                complete=complete,
                rows=[{"index": number} for number in range(3 if suite.rounds == 2 else 1)],
            )
        )
        folder = Thing(said, "folder", path=Path("it's"))
        folder.run, folder.round = said.calls("folder.run", done), said.calls("folder.round", 2)
        folder.run_dir = lambda stage, number: Path(f"it's/{stage}-{number}")
        folder.domains, folder.proposals = lambda: ["x"] * (code == 75), lambda: ["p"] * 5 * (complete is False)
        pipeline = object.__new__(stages._Pipeline)
        pipeline.folder, pipeline.overrides, pipeline.play, pipeline.suite = folder, ["a=1"], "play", suite
        pipeline.model = Thing(said, "model", engine={"prompt_price": 2} if code else None)
        results = Thing(said, "results") if shown else None
        saved = SimpleNamespace(refused=refused[:shown], differing=["domains/x.yaml"] * (shown == 12))
        monkeypatch.setattr(stages, "run", said.calls("run", (code, results)))
        monkeypatch.setattr(stages, "save_accepted", said.calls("save_accepted", saved))
        said(f"--- {name} {suite} {code} {complete}")
        said("=", pipeline.go(name))
        said(*(pipeline.estimate(stage) for stage in stages.STAGES["make"]))
    for error in (RunFailedError("broken"), ResumableError("spent"), ValueError("odd"), UserError("wrong"), None):
        made = Thing(said, "pipeline", go=raising(said, "go", error) if error else said.calls("go", 3))
        monkeypatch.setattr(stages, "_Pipeline", said.calls("_Pipeline", made))
        for name, estimate in (("make", False), ("write", False), ("write", True), ("make", True)):
            said.tried(f"{name} {estimate}", stages.run_command, name, Path("new"), ["a=1"], estimate, "play")
    monkeypatch.undo()
    stand_ins(monkeypatch, said, stages, "compose_config make_suite make_model", KumoPipeline=Stage)
    monkeypatch.setattr(stages, "check_config", said.calls("check_config", {"suite": "S", "model": "M"}))
    for suite, engine in ((Stage(), {"e": 1}), (Stage(), None), ("another", {"e": 1})):
        monkeypatch.setattr(stages, "make_suite", said.calls("make_suite", suite))
        monkeypatch.setattr(stages, "make_model", said.calls("make_model", SimpleNamespace(name="m", engine=engine)))
        made = said.tried("pipeline", stages._Pipeline, folder, ["a=1"], "play")
        said(*(vars(made).values() if isinstance(made, stages._Pipeline) else ()))
    said.tried("no value", stages.run_command, "make", Path("new"), ["a=1", "b"], True)
    (tmp_path / "file").touch()
    said.tried("a file", stages.run_command, "make", tmp_path / "file", [], True)
    said.check("steps_pipeline")
