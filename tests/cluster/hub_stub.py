"""A hub of models on this machine, as Hugging Face's client sees one, whose faults are switched on by its attributes."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "c" * 40
WEIGHTS = bytes(range(256)) * 4096 * 24
"""24 MiB: the client writes pieces of 10."""
FILES = {
    "config.json": b'{"architectures": ["Qwen3ForCausalLM"]}',
    "tokenizer.json": b"{}",
    "model.safetensors": WEIGHTS,
    "pytorch_model.bin": b"the same weights as a pickle",
}
LARGE = {"model.safetensors", "pytorch_model.bin"}


class Hub:
    """What it holds, and how it misbehaves."""

    def __init__(self) -> None:
        self.status = 0
        """Answer every request with this; 0 for none."""
        self.error_code = ""
        self.break_after: int | None = None
        """Bytes of the weights after which each connection ends."""
        self.down_after_break = False
        """Whether everything is refused from then on."""
        self.content = dict(FILES)
        """What is sent; ``FILES`` is what is announced."""
        self.claimed_size: int | None = None
        self.sent: list[tuple[int, int]] = []
        """First byte, and bytes sent, of each request for the weights."""
        self.address = ""


@contextmanager
def hub() -> Iterator[Hub]:
    """A running hub."""
    state = Hub()
    handler = type("Handler", (_Handler,), {"hub": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    state.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield state
    server.shutdown()
    server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def log_message(self, *_: object) -> None:
        """Nothing is shown."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        if self.hub.status:
            self.send_response(self.hub.status)
            self.send_header("Content-Length", "0")
            if self.hub.error_code:
                self.send_header("X-Error-Code", self.hub.error_code)
            self.end_headers()
        elif self.path.startswith("/api/models/"):
            self._send(json.dumps(self._info()).encode(), {"Content-Type": "application/json"}, body)
        else:
            self._file(self.path.partition(f"/resolve/{COMMIT}/")[2], body)

    def _info(self) -> dict[str, object]:
        siblings = []
        for name, content in FILES.items():
            large = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 100}
            siblings.append(
                {
                    "rfilename": name,
                    "size": self.hub.claimed_size if name in LARGE and self.hub.claimed_size else len(content),
                    "blobId": _git_id(content),
                    **({"lfs": large} if name in LARGE else {}),
                }
            )
        return {"id": "org/model", "modelId": "org/model", "sha": COMMIT, "siblings": siblings}

    def _file(self, name: str, body: bool) -> None:
        announced, content = FILES[name], self.hub.content[name]
        etag = hashlib.sha256(announced).hexdigest() if name in LARGE else _git_id(announced)
        first = int((self.headers.get("Range") or "bytes=0-").partition("=")[2].partition("-")[0])
        part = content[first:]
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT, "X-Linked-Etag": f'"{etag}"', "Accept-Ranges": "bytes"}
        headers["X-Linked-Size"] = str(len(announced))
        if first:
            headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
        self._send(part, headers, body, 206 if first else 200, name == "model.safetensors")
        if body and name == "model.safetensors":
            cut = self.hub.break_after
            self.hub.sent.append((first, len(part) if cut is None else min(cut, len(part))))
            if self.hub.down_after_break:
                self.hub.status = 503

    def _send(
        self, content: bytes, headers: dict[str, str], body: bool, status: int = 200, weights: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            cut = self.hub.break_after if weights else None
            self.wfile.write(content if cut is None else content[:cut])
            self.close_connection = True


def _git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
