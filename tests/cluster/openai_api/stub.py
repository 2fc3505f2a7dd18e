"""A server on this machine whose behavior is a list of steps, and the requests that the tests send it."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cluster.engines.base import Request, Sampling
from cluster.engines.openai_api import OpenAIEngine
from evals.types import message

KEY = "sk-test-abcdefgh-secret-9876"


class Stub:
    """Steps: a word, (status, error, headers), an answer's JSON or bytes, or a function of the handler."""

    def __init__(self) -> None:
        self.script = ["answer"]
        """The last step repeats."""
        self.models = (200, b'{"object": "list", "data": []}')
        """The answer to the question for models: its status and body; or a function of the handler."""
        self.poison = ""
        """A request that holds this breaks the server."""
        self.bodies: list[dict] = []
        self.headers: list[dict] = []
        self.times: list[float] = []
        self.asked_for_models = 0
        self.inside = self.most_inside = 0
        self.lock = threading.Lock()
        handler = type("OwnHandler", (Handler,), {"stub": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    stub: "Stub"

    def do_GET(self):
        self.stub.asked_for_models += 1
        self.stub.headers.append(dict(self.headers))
        if callable(self.stub.models):
            self.stub.models(self)
        else:
            self.send(*self.stub.models)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.stub.lock:
            self.stub.bodies.append(body)
            self.stub.headers.append(dict(self.headers))
            self.stub.times.append(time.monotonic())
            self.stub.inside += 1
            self.stub.most_inside = max(self.stub.most_inside, self.stub.inside)
            step = self.stub.script.pop(0) if len(self.stub.script) > 1 else self.stub.script[0]
            if self.stub.poison and self.stub.poison in json.dumps(body):
                step = (500, "broken", {})
        try:
            self._do(step)
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            with self.stub.lock:
                self.stub.inside -= 1

    def _do(self, step):
        if callable(step):
            step(self)
        elif step == "hang up":
            self.connection.close()
        elif step == "never":
            time.sleep(3)
        elif step == "garbage":
            self.send(200, b"<html>not what you think</html>")
        elif isinstance(step, bytes):
            self.send(200, step)
        elif isinstance(step, tuple):
            status, error, headers = step
            error = error if isinstance(error, dict) else {"message": error, "code": None}
            self.send(status, json.dumps({"error": error} if status != 422 else error).encode(), headers)
        else:
            if step == "slow":
                time.sleep(0.3)
            answer = step if isinstance(step, dict) else completion(logprobs=step == "logprobs")
            self.send(200, json.dumps(answer).encode())

    def send(self, status, body, headers=()):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 10,
    "total_tokens": 110,
    "prompt_tokens_details": {"cached_tokens": 64},
}


def completion(logprobs=False, content="hello", finish_reason="stop", message=(), **fields) -> dict:
    top = [{"token": "B", "logprob": -0.5, "bytes": None}, {"token": "A", "logprob": -1.5, "bytes": None}]
    scored = [{"token": "B", "logprob": -0.5, "bytes": None, "top_logprobs": top}]
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "stub",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish_reason,
                "message": {"role": "assistant", "content": content, **dict(message)},
                "logprobs": {"content": scored} if logprobs else None,
            }
        ],
        "usage": USAGE,
        **fields,
    }


def engine(stub, sampling=None, **settings) -> OpenAIEngine:
    return OpenAIEngine(sampling or Sampling(max_tokens=50), model="stub", base_url=stub.url, **settings)


def request(number=0, said="Go.", **fields) -> Request:
    return Request(f"r{number}", (message("system", "Play."), message("user", said)), seed=number, **fields)
