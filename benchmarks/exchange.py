"""Exports a run in every format and has each format's own package read it, installed from the registry beside ours.

A run of all three suites is exported four times: Every Eval Ever's validator, inspect_ai's reader, `datasets` and
lm-evaluation-harness's tables look at the files; `inspect view` shows a game in a browser (a screenshot stays in FOLDER); what
comes back by `raycade import` is compared row for row, and a log that inspect_ai itself has written without anything of ours is
imported as another harness's run. The packages need Python 3.12 or later and the registry; each has an environment of its own.

    python -m benchmarks.exchange
    python -m benchmarks.exchange --run runs/demo --folder exchange
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cluster.console import show
from cluster.storage.stored_run import Run
from evals.tables import Cell, Table

PACKAGES = {
    "every_eval_ever": ("every-eval-ever==0.3.0",),
    "inspect": ("inspect-ai==0.3.285",),
    "huggingface": ("datasets", "pillow"),
    "lm_eval": ("lm_eval==0.4.13",),
}
CHECKS = Path(__file__).parent / "peers" / "exchange_check.py"
FOREIGN = {
    "kumo": ["suite=kumo", "suite.domains=[medical,fantasy]", "suite.tasks_per_domain=6", "suite.repeats=2"],
    "kidgym": [
        *("suite=kidgym", "suite.tasks=[CL,SE,MA,FI,PL,MDE]", "suite.levels=[1]", "suite.modes=[zero_shot]"),
        "suite.episodes=8",
    ],
}
"""What the demo plays: the settings with which its games are planned again."""


def newer_python() -> str:
    """A Python of 3.12 or later: this one, one on PATH, or one beside this one's installation."""
    named = [shutil.which(f"python3.{minor}") for minor in (12, 13)]
    beside = sorted(Path(sys.base_prefix).parent.glob("3.1[23]*/bin/python3"))
    for path in (sys.executable, *filter(None, named), *map(str, beside)):
        wanted = "import sys; sys.exit(sys.version_info < (3, 12))"
        if subprocess.run([path, "-c", wanted], capture_output=True, check=False).returncode == 0:
            return path
    raise SystemExit("there is no Python 3.12 or later here, which these packages need")


def environment(name: str, folder: Path) -> Path:
    """The interpreter of a package's environment, which is made unless it is there."""
    home = folder / "environments" / name
    if not home.exists():
        call([newer_python(), "-m", "venv", str(home)])
        call([str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *PACKAGES[name]])
    return home / "bin" / "python"


def call(words: Sequence[str], cwd: Path | None = None) -> str:
    """The output of a program; an error with its end if it fails."""
    # the foreign packages must not see ours, nor write to the user's home
    own = words[:2] == [sys.executable, "-m"]
    variables = os.environ if own else {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(words, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words[:6])} ...\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def raycade(*words: object) -> str:
    """Our own command line."""
    return call([sys.executable, "-m", "cluster", *map(str, words)])


def checked(name: str, out: Path, folder: Path) -> dict[str, Any]:
    """What a format's own package says of an export."""
    python = environment(name, folder)
    if name == "every_eval_ever":
        words = [str(python), "-m", "every_eval_ever", "validate", "--format", "json", "data/*/*/*/*.json*"]
        found = json.loads(call(words, cwd=out))
        assert all(each["valid"] and not each["warnings"] for each in found), found
        lines = sum(each["line_count"] for each in found if each["file_type"] == "instance")
        return {"episodes": lines, "files": len(found)}
    return dict(json.loads(call([str(python), str(CHECKS), name, str(out)]).splitlines()[-1]))


def photographed(out: Path, folder: Path) -> dict[str, Any]:
    """`inspect view` in a browser: the chat of a game with its pictures."""
    from playwright.sync_api import sync_playwright

    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    log = next(iter(sorted(out.glob("*kidgym-*.eval"))), None)
    if browser is None or log is None:
        return {"episodes": 0, "skipped": "no Chromium, or no game with pictures"}
    sample = json.loads(call([sys.executable, "-c", _FIRST_SAMPLE, str(log)]))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    inspect = environment("inspect", folder).with_name("inspect")
    words = [str(inspect), "view", "--log-dir", str(out), "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _wait_for(port)
            with sync_playwright() as playwright:
                arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
                opened = playwright.chromium.launch(executable_path=browser, args=arguments)
                page = opened.new_page(viewport={"width": 1400, "height": 1000})
                where = f"{quote(log.name)}/samples/sample/{quote(sample['id'], safe='')}/{sample['epoch']}/"
                page.goto(f"http://127.0.0.1:{port}/#/tasks/{where}")
                page.wait_for_selector("img[src^='data:image/png']", timeout=120_000)
                pictures = page.locator("img[src^='data:image/png']").count()
                page.screenshot(path=folder / "inspect_view.png")
                opened.close()
        finally:
            server.terminate()
    assert pictures, "inspect view shows no picture"
    return {"episodes": 1, "pictures": pictures, "screenshot": str(folder / "inspect_view.png")}


_FIRST_SAMPLE = (
    "import json,sys,zipfile; print(json.dumps(json.loads(zipfile.ZipFile(sys.argv[1]).read('summaries.json'))[0]))"
)


def _wait_for(port: int, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    raise SystemExit("inspect view did not start")


def compared(run: Path, back: Path) -> dict[str, Any]:
    """Whether all rows came back as they were, but for the session and attempt that they are of."""
    columns = [name for name in Run(run).ledger.schema.names if name not in ("session", "attempt")]
    before, after = (Run(path).ledger.table(columns).sort_by("episode_id") for path in (run, back))
    assert [repr(before[name].to_pylist()) == repr(after[name].to_pylist()) for name in columns].count(False) == 0
    return {"episodes": len(before), "columns": len(columns)}


def outcomes(run: Path, suite: str, player: str) -> list[tuple[Any, ...]]:
    """Success, steps and score of each game."""
    names = ["task", "level", "mode", "index", "repeat", "success", "steps", "score", "suite", "player"]
    rows = Run(run).ledger.table(names).to_pylist()
    return sorted(tuple(row.values()) for row in rows if row.pop("suite") == suite and row.pop("player") == player)


def main() -> None:
    """Export, check, import, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--run", type=Path, metavar="RUN", help="default: the demo with simulated engines, 300 episodes"
    )
    parser.add_argument("--folder", type=Path, metavar="FOLDER", help="where environments and files stay")
    options = parser.parse_args()
    folder: Path = (options.folder or Path(tempfile.mkdtemp(prefix="raycade-exchange-"))).resolve()
    run = options.run or folder / "run"
    if not run.exists():
        raycade("run", "suite=demo", "model=simulated", "baselines=[random,oracle]", f"run_dir={run}")
    rows: list[tuple[Cell, ...]] = []

    def note(what: str, start: float, found: dict[str, Any], megabytes: float | None = None) -> None:
        rest = ", ".join(f"{name} {value}" for name, value in found.items() if name != "episodes")
        rows.append((what, found["episodes"], round(time.monotonic() - start, 1), megabytes, rest))
        print(f"{what}: {found}", file=sys.stderr)

    for name in PACKAGES:
        out = folder / f"out-{name}"
        shutil.rmtree(out, ignore_errors=True)
        start = time.monotonic()
        raycade("export", run, "--to", name, "--out", out, "--repo", "of-the-test/games")
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 1e6
        note(f"{name}: written", start, {"episodes": len(Run(run).ledger)}, round(size, 1))
        environment(name, folder)
        start = time.monotonic()
        note(f"{name}: read by its package", start, checked(name, out, folder))
    start = time.monotonic()
    note("inspect view in a browser", start, photographed(folder / "out-inspect", folder))
    for name, ending in (("every_eval_ever", "*.json"), ("inspect", "*.eval")):
        back = folder / f"back-{name}"
        shutil.rmtree(back, ignore_errors=True)
        start = time.monotonic()
        raycade("import", *sorted((folder / f"out-{name}").rglob(ending)), "--out", back)
        note(f"{name}: imported, rows equal", start, compared(run, back))
    if options.run is None:
        python = environment("inspect", folder)
        call([str(python), str(CHECKS), "foreign", str(folder / "out-inspect")])
        for suite, overrides in FOREIGN.items():
            [log] = (folder / "out-inspect" / "foreign").glob(f"*-{suite}-*.eval")
            back = folder / f"foreign-{suite}"
            shutil.rmtree(back, ignore_errors=True)
            start = time.monotonic()
            raycade("import", log, *overrides, "--out", back, "--player", "rival")
            theirs = outcomes(back, suite, "rival")
            assert theirs == outcomes(run, suite, "random"), suite
            raycade("compare", back, run)
            note(f"{suite}: another harness's log, outcomes equal", start, {"episodes": len(theirs)})
    columns = ("what", "episodes", "seconds", "MB", "found")
    show([Table("exchange", "Exports and imports", columns, tuple(rows), (f"files: {folder}",))])


if __name__ == "__main__":
    main()
