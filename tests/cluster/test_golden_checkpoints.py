"""Which checkpoints are complete, what their curve says and what one process can play, on record in ``tests/golden``."""

import contextlib
import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster.checkpoints import curve, folder, hosted, watch
from cluster.engines.base import EngineError, Sampling
from cluster.hosted import inline
from evals.stats.intervals import Estimate
from evals.summary.paired import Observation
from evals.tables import Table
from tests.golden import check_said, digest, plain

CONFIG = b'{"model_type": "x"}'


def shown(value) -> str:
    if isinstance(value, Table):
        lines = [
            f"{value.name}: {value.title}",
            " | ".join(value.columns),
            *(" | ".join(map(plain, row)) for row in value.rows),
        ]
        return "\n".join([*lines, *value.notes])
    if isinstance(value, list) and value and isinstance(value[0], Table):
        return "\n".join(map(shown, value))
    return value if isinstance(value, str) else plain(value)


def weights(tensors, further=0, length=None) -> bytes:
    """A file of safetensors: tensors with their bytes, each behind the one before."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, size in tensors.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + bytes(end + further)


def index(**places) -> bytes:
    return json.dumps({"weight_map": places}).encode()


def home(**files) -> Path:
    """A folder with these files, by names with _ in place of dots."""
    path = Path("of") / str(len([*Path("of").iterdir()]) if Path("of").exists() else 0)
    path.mkdir(parents=True)
    for name, content in {"config_json": CONFIG, **files}.items():
        if content is not None:
            (path / name.replace("_", ".")).write_bytes(content)
    return path


def tensors(**files) -> dict:
    return folder.tensors_of(home(**files))


def alike(*several) -> list[int]:
    """Numbers of checkpoints' kinds, equal ones for checkpoints that differ in the values of tensors alone."""
    kinds = [folder.likeness(home(**files)) for files in several]
    return [kinds.index(kind) for kind in kinds]


class Looks:
    """Looks at a folder, at some seconds."""

    def __init__(self, monkeypatch, settled):
        self.now, self.path = 0.0, Path("training")
        monkeypatch.setattr(folder, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.folder = folder.Folder(self.path, settled)

    def put(self, name, **files):
        made = home(**files)
        self.path.mkdir(exist_ok=True)
        made.rename(self.path / name)

    def look(self, now) -> str:
        self.now = now
        found, waiting = self.folder.look()
        return f"{[(each.name, each.step) for each in found]} {dict(sorted(waiting.items()))} {self.folder.settling(waiting)}"


def looked(monkeypatch) -> str:
    """A folder that is looked at while checkpoints arrive."""
    watched = Looks(monkeypatch, 5.0)
    watched.put("checkpoint-20", model_safetensors=weights({"a": 1}), trainer_state_json=b"{}")
    watched.put("checkpoint-3", model_safetensors=weights({"a": 1}))
    watched.put("b-20", model_safetensors=weights({"a": 1}), trainer_state_json=b"{}")
    watched.put("epoch-7", model_safetensors=weights({"a": 9}, -1))
    watched.put("final", model_safetensors=weights({"a": 1}))
    watched.put("tmp-checkpoint-9", model_safetensors=weights({"a": 1}))
    (watched.path / "step-5").write_text("a file")
    said = [watched.look(100.0), watched.look(104.9), watched.look(105.0), str(watched.folder.ended)]
    (watched.path / "checkpoint-3" / "tokenizer.json").write_text("{}")
    (watched.path / "DONE").touch()
    return "\n".join([*said, watched.look(106.0), watched.look(111.0), str(watched.folder.ended)])


def point(step, *wins, measure="toy: success", planned=None, failed=0, stopping=(), interval=True):
    won = [Observation((), number, 0, float(value)) for number, value in enumerate(wins)]
    mean = sum(wins) / len(wins)
    estimate = Estimate(mean, mean - 0.1 if interval else mean, mean + 0.1 if interval else mean, len(wins))
    planned = len(wins) if planned is None else planned
    return curve.Point(f"c-{step}", step, measure, estimate, won, planned, len(wins), failed, stopping)


POINTS = [
    point(30, *[1] * 9, 0),
    point(5, *[0] * 8, 1, 1, failed=2),
    point(20, *[1] * 5, 0, 0, 0, planned=10, stopping=("decided",)),
]
OTHER = [point(5, 0.25, 0.5, measure="toy: score"), point(7, 0.5, 0.5, measure="other: score", interval=False)]


def figure(points) -> str:
    made = curve.curve_figure(points, "Title")
    series = [(each.name, each.x, [plain(estimate.mean) for estimate in each.y]) for each in made.series]
    return f"{made.name} {made.title} {made.kind} {series} {made.x_label} {made.y_label}"


def page(made) -> str:
    parts = [(each.title, len(each.tables), len(each.figures)) for each in made.sections]
    return f"{made.title} {list(made.status)} {parts}"


def settings(engine=None, metered=False, nodes=1, loads=True, **cluster):
    kind = type("Own", (hosted.Engine,), {"load_weights": lambda self, model: True} if loads else {})
    replica = SimpleNamespace(nodes=nodes)
    model = SimpleNamespace(name="m", engine=engine, metered=metered, replica=replica, engine_class=kind)
    return SimpleNamespace(
        model=model, cluster=SimpleNamespace(**{"address": None, "replicas": 1, "runners": "auto", **cluster})
    )


def watching(points=(), failed=(), until=None):
    """A watch that has played and failed some steps."""
    made = watch.Watch(watch.Options(folder.Folder(Path("training")), Path("out"), (), 0, until=until), None)
    made._points = {f"c-{step}": [point(step, 1)] for step in points}
    made._failed = {f"f-{step}": step for step in failed}
    return made


def said_of(capsys, *several) -> str:
    """What is printed of checkpoints that wait, look after look."""
    made = watching()
    for waiting in several:
        made._say(waiting)
    return capsys.readouterr().out


@dataclasses.dataclass(frozen=True)
class Loaded:
    """Settings, as they are loaded."""

    overrides: list
    plan: tuple = (1, 2)


def settings_of(*overrides, games=3) -> str:
    """What a checkpoint's run is given."""
    made = watch.Watch(watch.Options(folder.Folder(Path("training")), Path("out"), overrides, games), None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "load_settings", Loaded)
        patch.setattr(watch, "balanced_part", lambda plan, games: (*plan, f"{games} games"))
        return plain(made._settings(folder.Checkpoint("x", 5, Path('/a "b"/x-5')), "x-5", Path("out/x 5")))


def files_shown() -> str:
    """What is shown of a curve, and the files that are written."""
    made, said = watching((5, 7), (6,)), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "show", lambda tables: said.append(f"{len(tables)} tables"))
        patch.setattr(
            watch,
            "curve_files",
            lambda points, *given: said.append(plain(given)) or {"a.svg": b"1", "tables/b.csv": b"2"},
        )
        made._show()
    return "\n".join([*said, *(f"{path} {path.read_text()}" for path in sorted(Path("out").rglob("*.*")))])


def tracked(failure="", known=None) -> str:
    """What a tracker gets of a curve, and the names that are kept of what it got."""
    said, made = [], watching((5, 7, 9))
    made._points["c-8"] = []
    watcher = SimpleNamespace(failure=failure)
    watcher.start = lambda folder, id, config: said.append(f"start {folder} {len(id)} {config}")
    watcher.log = lambda numbers: said.append(f"log {numbers['checkpoint/step']}")
    watcher.finish = lambda results: said.append(f"finish {len(results.tables)} tables")
    Path("out").mkdir(exist_ok=True)
    Path("out/tracked.txt").write_text(known) if known is not None else Path("out/tracked.txt").unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "make_tracker", lambda section: section)
        patch.setattr(watch, "Watcher", lambda tracker: said.append(f"watcher {tracker}") or watcher)
        patch.setattr(watch, "warn", said.append)
        made._finish_tracker()
        for _ in range(2):
            made._track(SimpleNamespace(plan=[], config="a: 1"), {"type": "t"})
        made._finish_tracker()
    return "\n".join([*said, Path("out/tracked.txt").read_text().replace("\n", " ")])


class Told:
    """An engine that says what is asked of it; it fails at what its checkpoint's name says."""

    starts_processes = False

    def __init__(self, said, name):
        self.said, self.name = said, name

    async def start(self):
        self._tell("start", self.name)

    async def load_weights(self, model):
        self._tell("load", Path(model).name)
        return "other" not in model

    async def close(self):
        self._tell("close", self.name)

    def _tell(self, done, name):
        self.said.append(f"{done} {name}")
        if done in name:
            raise EngineError(f"cannot {done}")


def hosts(*names) -> str:
    """What an engine is asked for checkpoints of these names, one after the other; a number in a name is of its tensors."""
    said, host = [], hosted.HostedEngine()
    for name in names:
        made = home(model_safetensors=weights({"a": int(name.split("-")[-1])})).rename(name)
        further = {"length": 5} if "further" in name else {}
        model = SimpleNamespace(
            engine={"model": str(made), **further}, sampling=Sampling(), make_engine=lambda name=name: Told(said, name)
        )
        try:
            said.append(f"has {host._loop.run(host.ready(model)).engine.name}")
        except EngineError as error:
            said.append(f"{error}")
    host.close()
    return f"{'; '.join(said)}; {host.started} started"


def played_by_host(error=None, signals=()) -> str:
    """What a host does around a run, and what it returns."""
    said, host = [], hosted.HostedEngine()

    class Driver:
        def __init__(self, *given):
            said.append(f"driver of {given[:-1]} with {given[-1].func.__name__} of {given[-1].args == (host,)}")

        async def run(self):
            said.append("runs")
            if error is not None:
                raise error

    class Shown(contextlib.nullcontext):
        def at(self, stage):
            said.append(f"at {stage!r}")

    async def end():
        said.append("engine ends")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hosted, "Driver", Driver)
        patch.setattr(hosted, "note_session", lambda *given: said.append(f"notes {given}"))
        patch.setattr(hosted.stop_signals, "counted", contextlib.nullcontext)
        patch.setattr(hosted.stop_signals, "received", [*signals])
        patch.setattr(host, "_end", end)
        patch.setattr(Shown, "__repr__", lambda self: "progress")
        try:
            said.append(str(host.play("settings", "todo", "directory", "stats", Shown(), "watcher")))
        except (hosted.RunFailedError, ValueError) as failed:
            said.append(repr(failed))
    return "\n".join(said)


def test_checkpoints_are_found_and_shown_as_on_record(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(curve, "draw", lambda drawn, kind: f"{kind} of {drawn.title}".encode())
    monkeypatch.setattr(curve, "figure_parts", lambda drawn: {"title": drawn.title})
    monkeypatch.setattr(curve, "one_file", page)
    named = {name: value for module in (curve, folder, hosted, watch, inline) for name, value in vars(module).items()}
    more = {"monkeypatch": monkeypatch, "capsys": capsys, "digest": digest}
    check_said("models_checkpoints", {**named, **more, **globals()}, shown)
