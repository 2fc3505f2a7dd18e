"""The life cycle of batch jobs at OpenAI, Anthropic and Gemini; at a chosen step it kills the process that asks."""

import email.parser
import email.policy
import json
import os
import re
import signal
import time
from collections import Counter

from tests.cluster.providers import stub as formats
from tests.cluster.providers.stub import Handler, ProviderStub

STEPS = ("before upload", "after upload", "after create", "while running", "while downloading", "after download")


class BatchStub(ProviderStub):
    """Counts how often each turn is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.server.RequestHandlerClass = type("OwnHandler", (BatchHandler,), {"stub": self})
        self.say = "red"
        self.asked: Counter[str] = Counter()
        self.files: dict[str, list] = {}
        self.jobs: dict[str, dict] = {}
        self.polls_before_end = 1
        self.kill_at = ""
        self.pid = 0
        self.expire: set[int] = set()
        """Numbers of requests (from 0, over all jobs) that no job comes to."""
        self.fail: set[int] = set()
        """Numbers of requests that end with an error."""
        self.garble: set[int] = set()
        """Numbers of requests whose answer is a text where an object should be; OpenAI's only."""

    def reach(self, step: str) -> bool:
        """A step of the life cycle is reached: kill whoever asks, if it was chosen."""
        if step != self.kill_at:
            return False
        self.kill_at = ""
        os.kill(self.pid, signal.SIGKILL)
        return True

    def run(self, requests: list[tuple[str, dict]], name: str) -> str:
        """Take a job; its answers are made at once and shown when it has ended."""
        number = len(self.jobs)
        answers = []
        for turn, body in requests:
            place = sum(self.asked.values())
            self.asked[json.dumps(body, sort_keys=True)] += 1
            self.bodies.append(body)
            outcome = "expired" if place in self.expire else "failed" if place in self.fail else "done"
            answers.append((turn, body, outcome, place in self.garble))
        job = {"id": f"batch_{number}", "name": name, "answers": answers, "polls": 0, "since": time.time()}
        self.jobs[job["id"]] = job
        return job["id"]

    def ended(self, job: dict) -> bool:
        job["polls"] += 1
        if job["polls"] > self.polls_before_end:
            return True
        self.reach("while running")
        return False


class BatchHandler(Handler):
    stub: BatchStub

    def do_GET(self):  # noqa: N802
        stub = self.stub
        stub.headers.append(dict(self.headers))
        path = self.path.partition("?")[0]
        with stub.lock:
            if stub.kill_at == "after download" and any(job.get("shown") for job in stub.jobs.values()):
                stub.reach("after download")
            for pattern, answer in (
                (r"^/files/(.+)/content$", self.openai_content),
                (r"^/batches/(.+)$", lambda id_: self.openai_job(stub.jobs[id_])),
                (r"^/batches$", lambda: self.openai_list()),
                (r"^/v1/messages/batches/(.+)/results$", self.anthropic_results),
                (r"^/v1/messages/batches/(.+)$", lambda id_: self.anthropic_job(stub.jobs[id_])),
                (r"^/v1/messages/batches$", lambda: self.anthropic_list()),
                (r"^/v1(?:beta)?/batches/(.+)$", lambda id_: self.gemini_job(stub.jobs[id_])),
                (r"^/v1(?:beta)?/batches$", lambda: self.gemini_list()),
            ):
                if found := re.search(pattern, path):
                    self.write(answer(*found.groups()))
                    return
        self.send(200, b'{"data": [], "object": "list", "has_more": false, "name": "models/stub"}')

    def do_POST(self):  # noqa: N802
        stub = self.stub
        content = self.rfile.read(int(self.headers["content-length"]))
        with stub.lock:
            stub.headers.append(dict(self.headers))
            if self.path == "/files":
                if stub.reach("before upload"):
                    return
                head = b"content-type: " + self.headers["content-type"].encode() + b"\r\n\r\n"
                parts = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + content)
                file = next(part for part in parts.iter_parts() if part.get_filename())
                id_ = f"file_{len(stub.files)}"
                stub.files[id_] = [json.loads(line) for line in file.get_payload(decode=True).splitlines()]
                if stub.reach("after upload"):
                    return
                self.write(
                    {"id": id_, "object": "file", "bytes": 1, "created_at": 1, "filename": "x", "purpose": "batch"}
                )
                return
            body = json.loads(content)
            if self.path == "/batches":
                lines = stub.files[body["input_file_id"]]
                id_ = stub.run([(line["custom_id"], line["body"]) for line in lines], body["metadata"]["raycade_job"])
                answer = self.openai_job(stub.jobs[id_], new=True)
            else:
                if stub.reach("before upload"):
                    return
                if self.path.startswith("/v1/messages/batches"):
                    id_ = stub.run([(each["custom_id"], each["params"]) for each in body["requests"]], "")
                    answer = self.anthropic_job(stub.jobs[id_], new=True)
                else:
                    batch = body["batch"]
                    inlined = batch["inputConfig"]["requests"]["requests"]
                    requests = [(each["metadata"]["key"], each["request"]) for each in inlined]
                    answer = self.gemini_job(stub.jobs[stub.run(requests, batch["displayName"])], new=True)
            if not stub.reach("after create"):
                self.write(answer)

    def write(self, answer):
        if answer is not None:
            self.send(200, answer if isinstance(answer, bytes) else json.dumps(answer).encode())

    def download(self, job, content):
        """The answers, or half of them if the one who asks dies meanwhile."""
        if self.stub.kill_at == "while downloading":
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            self.stub.reach("while downloading")
            return None
        job["shown"] = True
        return content

    # --- OpenAI ---

    def openai_job(self, job, new=False):
        ended = not new and self.stub.ended(job)
        outcomes = {outcome for _, _, outcome, _ in job["answers"]}
        return {
            "id": job["id"],
            "object": "batch",
            "endpoint": "/v1/responses",
            "input_file_id": "file_0",
            "completion_window": "24h",
            "created_at": int(job["since"]),
            "status": ("expired" if "expired" in outcomes else "completed") if ended else "in_progress",
            "output_file_id": f"{job['id']}-done" if ended else None,
            "error_file_id": f"{job['id']}-failed" if ended and "failed" in outcomes else None,
            "metadata": {"raycade_job": job["name"]},
        }

    def openai_list(self):
        found = [self.openai_job(job, new=True) for job in reversed(self.stub.jobs.values())]
        return {"object": "list", "data": found, "has_more": False}

    def openai_content(self, file):
        id_, _, wanted = file.partition("-")
        job, lines = self.stub.jobs[id_], []
        for turn, body, outcome, garbled in job["answers"]:
            if outcome != wanted:
                continue
            status, said = 500, {"error": {"message": "The server had an error", "type": "server_error"}}
            if outcome == "done":
                status, said = 200, json.loads(formats.responses(self.stub, body)[1])
            response = {"status_code": status, "request_id": "x", "body": "nothing" if garbled else said}
            lines.append({"id": "x", "custom_id": turn, "response": response, "error": None})
        return self.download(job, b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    # --- Anthropic ---

    def anthropic_job(self, job, new=False):
        ended = not new and self.stub.ended(job)
        count = len(job["answers"])
        counts = {"processing": 0 if ended else count, "succeeded": count if ended else 0}
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(job["since"]))
        return {
            "id": job["id"],
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": {"canceled": 0, "errored": 0, "expired": 0, **counts},
            "created_at": stamp,
            "expires_at": stamp,
            "results_url": f"{self.stub.url}/v1/messages/batches/{job['id']}/results" if ended else None,
        }

    def anthropic_list(self):
        found = [self.anthropic_job(job, new=True) for job in reversed(self.stub.jobs.values())]
        return {"data": found, "has_more": False, "first_id": None, "last_id": None}

    def anthropic_results(self, id_):
        job, lines = self.stub.jobs[id_], []
        for turn, body, outcome, _ in job["answers"]:
            result = {"type": "expired"}
            if outcome == "failed":
                error = {"type": "error", "error": {"type": "api_error", "message": "broken"}, "request_id": None}
                result = {"type": "errored", "error": error}
            elif outcome == "done":
                usage = {"input_tokens": 100, "output_tokens": 50}
                usage |= {"cache_creation_input_tokens": 2000, "cache_read_input_tokens": 3000}
                message = {"id": "m", "type": "message", "role": "assistant", "model": body["model"], "usage": usage}
                blocks = formats.anthropic_blocks(self.stub)
                result = {
                    "type": "succeeded",
                    "message": {**message, "content": blocks, "stop_reason": "end_turn", "stop_sequence": None},
                }
            lines.append({"custom_id": turn, "result": result})
        return self.download(job, b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    # --- Gemini ---

    def gemini_job(self, job, new=False):
        ended = not new and self.stub.ended(job)
        about = {"displayName": job["name"], "model": "models/stub", "createTime": "2099-01-01T00:00:00Z"}
        about["state"] = "BATCH_STATE_SUCCEEDED" if ended else "BATCH_STATE_RUNNING"
        answer = {"name": f"batches/{job['id']}", "metadata": {**about, "name": f"batches/{job['id']}"}, "done": ended}
        if not ended:
            return answer
        responses = []
        for turn, _, outcome, _ in job["answers"]:
            if outcome == "done":
                responses.append({"metadata": {"key": turn}, "response": formats.gemini_reply(self.stub, {})})
            elif outcome == "failed":
                responses.append({"metadata": {"key": turn}, "error": {"code": 500, "message": "broken"}})
        answer["metadata"]["output"] = {"inlinedResponses": {"inlinedResponses": responses}}
        return self.download(job, json.dumps(answer).encode())

    def gemini_list(self):
        return {"operations": [self.gemini_job(job, new=True) for job in reversed(self.stub.jobs.values())]}
