"""A real browser, a running viewer, and the front end's packages; what cannot be had skips with the reason."""

import contextlib
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
import uvicorn

from cluster.listening import listen
from evals.notes.web import ViewerNotes
from evals.viewer.index import EpisodeIndex
from evals.viewer.server import Viewer, make_app
from evals.viewer.study import StudyPage
from tests.cluster.conftest import ROOT
from tests.viewer_runs import calm_rows, hostile_rows, viewed, write_run

FRONTEND = ROOT / "evals" / "viewer" / "frontend"
TOKEN = "token-of-the-test"


@pytest.fixture(scope="session")
def frontend(tmp_path_factory) -> Path:
    """A copy of the front end's source with its packages installed."""
    if not (npm := shutil.which("npm")):
        pytest.skip("npm is not installed here")
    folder = tmp_path_factory.mktemp("frontend") / "viewer" / "frontend"
    shutil.copytree(FRONTEND, folder, ignore=shutil.ignore_patterns("node_modules"))
    done = subprocess.run(
        [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"npm cannot install the front end's packages here: {done.stderr.strip()[-300:]}")
    return folder


@pytest.fixture(scope="module")  # playwright keeps an event loop running, which is in the way of other modules' own
def chromium(viewer_address):
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed here")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("Chromium is not installed here")
    with sync_api.sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(
                executable_path=path, args=["--no-sandbox"] if os.geteuid() == 0 else []
            )
        except sync_api.Error as error:
            pytest.skip(f"Chromium cannot start here: {error}")
        yield browser
        browser.close()


@contextlib.contextmanager
def serving(viewer, more=()):
    """Serves a viewer on a thread; the address with its token."""
    listener = listen("127.0.0.1", 0)
    config = uvicorn.Config(make_app(viewer, TOKEN, more=more), log_level="warning", ws="none", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/?token={TOKEN}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="session")
def viewer_address(tmp_path_factory):
    """A viewer of a calm and a hostile run."""
    folder = tmp_path_factory.mktemp("runs")
    paths = [write_run(folder / "calm", *calm_rows()), write_run(folder / "wild", *hostile_rows())]
    index = EpisodeIndex([viewed(path) for path in paths])
    notes = ViewerNotes(index, "ada")
    viewer = Viewer(index, also=notes.refresh)
    viewer.refresh()
    with serving(viewer, [*notes.routes(), *StudyPage(index).routes()]) as address:
        yield address


@pytest.fixture
def page(viewer_address, chromium):
    """The viewer's page; whatever the browser complains of fails the test."""
    context = chromium.new_context(viewport={"width": 1400, "height": 900}, color_scheme="light")
    page = context.new_page()
    complaints: list[str] = []

    def heard(message) -> None:
        if message.type in ("error", "warning"):
            complaints.append(f"{message.text} {message.location['url']}")

    page.on("console", heard)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    page.goto(viewer_address)
    page.goto(viewer_address.split("?")[0] + "episodes")
    page.wait_for_selector(".row .outcome")
    yield page
    context.close()
    assert not complaints, complaints
