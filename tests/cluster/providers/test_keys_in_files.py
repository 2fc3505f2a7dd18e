"""A whole run under Ray whose keys are in the environment: no file that it leaves holds one of them, in whatever form."""

import base64
import shutil
import tempfile
import urllib.parse
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cluster.conftest import EASY, raycade

KEY = "sk-ant-api03/Qx7+recognizable=Zw9~kept?out&of:all@files"
"""Its percent-encoding differs from it."""
KEY_OF_TRACKER = "5f2c9e" + "recognizable0tracker0key0" + "a1b2c3d4e"


def forms(key: str) -> list[bytes]:
    """What to look for: the middle of a key plain, percent-encoded, and in base64 wherever it begins in a longer text."""
    middle = key[10:-10]
    found = [middle.encode(), urllib.parse.quote(middle, safe="").encode()]
    for shift in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            # Characters at the ends depend on their neighbors.
            found.append(encode(b"\0" * shift + middle.encode())[4:-4])
    return found


def files_with(folder: Path, key: str) -> list[str]:
    """The files below a folder that hold a key; tables are read as text, since they are compressed."""
    found = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        content = path.read_bytes()
        if path.suffix == ".parquet":
            content += str(pq.read_table(path).to_pylist()).encode()
        if any(form in content for form in forms(key)):
            found.append(str(path.relative_to(folder)))
    return found


def test_the_search_finds_every_form(tmp_path):
    written = {
        "plain": KEY.encode(),
        "percent": urllib.parse.quote(KEY, safe="").encode(),
        "base64": base64.b64encode(KEY.encode()),
        "within": base64.b64encode(f"x-api-key: {KEY}\n".encode()),
        "basic": base64.urlsafe_b64encode(f"u:{KEY}".encode()),
        "other": KEY[:9].encode(),
    }
    for name, content in written.items():
        (tmp_path / name).write_bytes(content)
    assert files_with(tmp_path, KEY) == sorted(written.keys() - {"other"})


@pytest.mark.ray
def test_no_file_of_a_run_holds_a_key(tmp_path, stub, monkeypatch):
    def echo(*shown: str):
        return {"type": "error", "error": {"type": "invalid_request_error", "message": f"not for {' '.join(shown)}"}}

    stub.script = [
        (400, echo(KEY, base64.b64encode(KEY.encode()).decode())),
        (400, echo(urllib.parse.quote(KEY, safe=""), KEY)),
    ]
    session = Path(tempfile.mkdtemp(prefix="keys", dir="/tmp"))  # Ray's sockets need a short path
    environment = {"ANTHROPIC_API_KEY": KEY, "WANDB_API_KEY": KEY_OF_TRACKER, "RAY_TMPDIR": str(session)}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    model = ["model=anthropic", "model.engine.model=claude-opus-5", f"model.engine.base_url={stub.url}"]
    games = [*EASY, "suite.tasks_per_domain=4", "suite.repeats=1", "suite.max_steps=2", f"run_dir={tmp_path / 'run'}"]
    try:
        done = raycade("run", *games, *model, "tracker=wandb")
        (tmp_path / "output").write_text(done.stdout + done.stderr)
        assert done.returncode == 0, done.stderr
        assert any(KEY in str(headers) for headers in stub.headers), "the key was used"
        looked_at = {place: sum(path.is_file() for path in place.rglob("*")) for place in (tmp_path, session)}
        assert min(looked_at.values()) > 10, looked_at
        assert list(tmp_path.glob("run/wandb/offline-run-*/*.wandb")) and list(session.rglob("raylet.out"))
        for key in (KEY, KEY_OF_TRACKER):
            assert files_with(tmp_path, key) == [] and files_with(session, key) == []
    finally:
        shutil.rmtree(session, ignore_errors=True)
