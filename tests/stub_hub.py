"""A hub of one model on this machine, for ``HF_ENDPOINT``: a branch that can be moved, and answers of 429 for a while."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class StubHub:
    """Commits by name of the branch, and a folder for each commit."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.branches: dict[str, str] = {}
        self.folders: dict[str, Path] = {}
        self.busy_until = 0.0
        self.files_only = False
        self.refused = 0
        self.address = ""

    def publish(self, branch: str, folder: Path, number: int) -> str:
        """Make a folder the head of a branch; returns its commit."""
        commit = hashlib.sha1(str(number).encode()).hexdigest()
        self.branches[branch], self.folders[commit] = commit, folder
        return commit

    def be_busy(self, seconds: float, files_only: bool = False) -> None:
        """Answer 429 from now on; with ``files_only``, say all the same what there is."""
        self.busy_until, self.files_only = time.monotonic() + seconds, files_only


@contextlib.contextmanager
def stub_hub(model: str) -> Iterator[StubHub]:
    """Serve until the block ends."""
    hub = StubHub(model)

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            self._answer()

        def _answer(self) -> None:
            if time.monotonic() < hub.busy_until and not (hub.files_only and self.path.startswith("/api/")):
                hub.refused += 1
                return self._send(429, b"", {})
            path = self.path.partition("?")[0]
            about, files = f"/api/models/{hub.model}", f"/{hub.model}/resolve/"
            if path.startswith(files):
                revision, _, name = path.removeprefix(files).partition("/")
                commit = hub.branches.get(revision, revision)
                file = hub.folders.get(commit, Path("/nowhere")) / name
                if file.is_file():
                    content = file.read_bytes()
                    tag = hashlib.sha1(content).hexdigest()
                    return self._send(200, content, {"X-Repo-Commit": commit, "ETag": f'"{tag}"'})
                code = "EntryNotFound" if commit in hub.folders else "RevisionNotFound"
                return self._send(404, b"", {"X-Error-Code": code, "X-Repo-Commit": commit})
            if path == about or path.startswith(f"{about}/"):
                _, _, revision = path.removeprefix(about).partition("/revision/")
                revision = revision.partition("/")[0] or "main"
                if "/tree/" in path:
                    revision = path.partition("/tree/")[2].partition("/")[0]
                commit = hub.branches.get(revision, revision)
                if commit not in hub.folders:
                    return self._send(404, b"", {"X-Error-Code": "RevisionNotFound"})
                names = sorted(each for each in hub.folders[commit].iterdir() if each.is_file())
                if "/tree/" in path:
                    tree = [
                        {"type": "file", "path": each.name, "size": each.stat().st_size, "oid": "0"} for each in names
                    ]
                    return self._send(200, json.dumps(tree).encode(), {"Content-Type": "application/json"})
                info = {"id": hub.model, "sha": commit, "siblings": [{"rfilename": each.name} for each in names]}
                return self._send(200, json.dumps(info).encode(), {"Content-Type": "application/json"})
            return self._send(404, b"", {"X-Error-Code": "RepoNotFound"})

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
