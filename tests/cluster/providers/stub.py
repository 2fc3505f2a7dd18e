"""A server on this machine that speaks the providers' formats as their published examples show them.

It issues a signature with each thought and notes in ``wrong`` where a later request does not repeat both as they came, or
breaks a rule for chats that its provider tells.
"""

import base64
import itertools
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "sk-test-abcdefgh-secret-9876"


class ProviderStub:
    """Answers ``say``; steps of ``script`` come first: (status, body, headers), or a function of the handler."""

    def __init__(self) -> None:
        self.say = "A"
        self.script: list = []
        self.bodies: list[dict] = []
        self.headers: list[dict] = []
        self.paths: list[str] = []
        self.wrong: list[str] = []
        self.thinks = True
        self.served: dict[str, str] = {}
        """What answers tell of how they were served: ``service_tier``."""
        self.issued: dict[str, list] = {}
        """By the text of a reply: what the provider wants back in its place."""
        self.lock = threading.Lock()
        handler = type("OwnHandler", (Handler,), {"stub": self})
        self.server = Server(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def answer(self, path: str, body: dict) -> tuple[str, bytes]:
        """Content type and body of a reply in the format that belongs to a path."""
        for pattern, speak in FORMATS.items():
            if re.search(pattern, path):
                return speak(self, body)
        raise AssertionError(path)

    def check_back(self, text: str, found: list) -> None:
        """Note where an earlier reply is not repeated as it was issued."""
        if text in self.issued and self.issued[text] != found:
            self.wrong.append(f"{text!r}: {found} in place of {self.issued[text]}")

    def check_blocks(self, messages: list[dict], is_thought) -> None:
        """Note what Anthropic and Bedrock refuse: no or blank texts, and replies that end with a thought."""
        for said in messages:
            texts = [block["text"] for block in said["content"] if "text" in block]
            if not said["content"] or not all(text.strip() for text in texts):
                self.wrong.append("text content blocks must be non-empty")
            elif said["role"] == "assistant" and is_thought(said["content"][-1]):
                self.wrong.append("The final block in an assistant message cannot be `thinking`.")

    def number(self) -> int:
        return len(self.bodies)


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # clients connect all at once


class Handler(BaseHTTPRequestHandler):
    stub: ProviderStub

    def do_GET(self):
        self.stub.headers.append(dict(self.headers))
        self.stub.paths.append(self.path)
        self.send(200, b'{"data": [], "object": "list", "has_more": false, "name": "models/stub"}')

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.stub.lock:
            self.stub.bodies.append(body)
            self.stub.headers.append(dict(self.headers))
            self.stub.paths.append(self.path)
            step = self.stub.script.pop(0) if self.stub.script else None
            if step is None:
                kind, content = self.stub.answer(self.path, body)
                self.send(200, content, {"content-type": kind})
            elif callable(step):
                step(self)
            else:
                status, error, *headers = step
                self.send(status, json.dumps(error).encode(), *headers)

    def send(self, status, body, headers=()):
        self.send_response(status)
        sent = {"content-type": "application/json", "content-length": str(len(body)), **dict(headers)}
        for name, value in sent.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


JSON = "application/json"


def anthropic(stub, body):
    """Server-sent events of one message."""
    stub.check_blocks(body["messages"], lambda block: block["type"] == "thinking")
    for said in body["messages"]:
        if said["role"] == "assistant":
            stub.check_back("".join(each.get("text", "") for each in said["content"]), said["content"])
    blocks = anthropic_blocks(stub)
    usage = {
        "input_tokens": 100,
        "cache_creation_input_tokens": 2000,
        "cache_read_input_tokens": 3000,
        "output_tokens": 1,
        **stub.served,
    }
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": []}
    events = [
        {"type": "message_start", "message": {**head, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    ]
    for index, block in enumerate(blocks):
        empty = {name: "" if name != "type" else value for name, value in block.items()}
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        for name, value in block.items():
            if name != "type":
                delta = {"type": f"{name}_delta", name: value}
                events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    used = {"output_tokens": 50, "output_tokens_details": {"thinking_tokens": 20}}
    events.append({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": used})
    events.append({"type": "message_stop"})
    return "text/event-stream", sse(events)


def sse(events) -> bytes:
    return "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events).encode()


def anthropic_blocks(stub) -> list:
    number = stub.number()
    text = {"type": "text", "text": stub.say}
    thought = {"type": "thinking", "thinking": f"Hm {number}.", "signature": f"EqoB{number}+/="}
    blocks = [thought, text] if stub.thinks else [text]
    stub.issued[stub.say] = blocks
    return blocks


def responses(stub, body):
    """One object of the responses API."""
    asks_for_thoughts = "reasoning.encrypted_content" in body.get("include", ())
    for item, after in itertools.zip_longest(body["input"], body["input"][1:], fillvalue={}):
        if item.get("type") == "reasoning" and not item.get("encrypted_content"):
            stub.wrong.append(f"Item with id '{item['id']}' not found.")
        if item.get("type") == "reasoning" and after.get("type") != "message":
            stub.wrong.append(
                f"Item '{item['id']}' of type 'reasoning' was provided without its required following item."
            )
    said = [each for each in body["input"] if "type" in each or each["role"] == "assistant"]
    if stub.thinks:
        for before, item in itertools.pairwise(said):
            if item.get("type") == "message":
                stub.check_back(item["content"][0]["text"], [before, item])
    number = stub.number()
    thought = {"id": f"rs_{number}", "type": "reasoning", "summary": []}
    if asks_for_thoughts:
        thought["encrypted_content"] = f"gAAA{number}=="
    text = {"type": "output_text", "text": stub.say, "annotations": []}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
    output = [thought, message] if stub.thinks else [message]
    stub.issued[stub.say] = output
    usage = {
        "input_tokens": 5100,
        "input_tokens_details": {"cached_tokens": 3000, "cache_write_tokens": 2000},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 20},
        "total_tokens": 5150,
    }
    found = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": body["model"],
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
        **stub.served,
    }
    return JSON, json.dumps(found).encode()


def chat(stub, body):
    """One chat completion; OpenRouter's has thoughts and its cost."""
    router = "usage" in body
    for said in body["messages"]:
        if router and said["role"] == "assistant":
            stub.check_back(said["content"], said.get("reasoning_details"))
    number = stub.number()
    message = {"role": "assistant", "content": stub.say, "refusal": None}
    usage = {
        "prompt_tokens": 5100,
        "completion_tokens": 50,
        "total_tokens": 5150,
        "prompt_tokens_details": {"cached_tokens": 3000, "cache_write_tokens": 2000},
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
    if router:
        details = [{"type": "reasoning.encrypted", "data": f"gAAA{number}==", "format": "x", "index": 0}]
        message |= {"reasoning": f"Hm {number}.", "reasoning_details": details}
        stub.issued[stub.say] = details
        usage["cost"] = 0.0123
    choice = {"index": 0, "finish_reason": "stop", "message": message, "logprobs": None}
    if body.get("logprobs"):
        top = [{"token": token, "logprob": value, "bytes": None} for token, value in TOP.items()]
        choice["logprobs"] = {"content": [{**top[0], "top_logprobs": top}], "refusal": None}
    found = {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [choice],
        "usage": usage,
        **stub.served,
    }
    return JSON, json.dumps(found).encode()


TOP = {"A": -0.25, "B": -1.75, "maybe": -4.0}
"""The first token's log-probabilities."""


def gemini(stub, body):
    """One reply of generateContent."""
    for said in body["contents"]:
        if not all(part.get("text") or len(part) > 1 or "inlineData" in part for part in said["parts"] or [{}]):
            stub.wrong.append("required oneof field 'data' must have one initialized field")
    for said in body["contents"]:
        if said["role"] == "model":
            stub.check_back("".join(part.get("text", "") for part in said["parts"]), said["parts"])
    found = gemini_reply(stub, body["generationConfig"])
    return JSON, json.dumps(found).encode()


def gemini_reply(stub, config) -> dict:
    number = stub.number()
    signature = base64.b64encode(f"signature {number}".encode()).decode()
    answer = {"text": stub.say, "thoughtSignature": signature} if stub.thinks else {"text": stub.say}
    parts = [{"text": f"Hm {number}.", "thought": True}, answer] if stub.thinks else [answer]
    stub.issued[stub.say] = [answer]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    if config.get("responseLogprobs"):
        top = [{"token": token, "tokenId": 1, "logProbability": value} for token, value in TOP.items()]
        candidate["logprobsResult"] = {"chosenCandidates": top[:1], "topCandidates": [{"candidates": top}]}
    usage = {
        "promptTokenCount": 5100,
        "cachedContentTokenCount": 3000,
        "candidatesTokenCount": 30,
        "thoughtsTokenCount": 20,
        "totalTokenCount": 5150,
    }
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "stub", "responseId": "x"}


def bedrock(stub, body):
    """One reply of converse."""
    stub.check_blocks(body["messages"], lambda block: "reasoningContent" in block)
    for before, after in itertools.pairwise(body["messages"]):
        if before["role"] == after["role"]:
            stub.wrong.append("A conversation must alternate between user and assistant roles.")
    for said in body["messages"]:
        if said["role"] == "assistant":
            stub.check_back("".join(each.get("text", "") for each in said["content"]), said["content"])
    number = stub.number()
    thought = {"reasoningContent": {"reasoningText": {"text": f"Hm {number}.", "signature": f"EqoB{number}"}}}
    blocks = [thought, {"text": stub.say}] if stub.thinks else [{"text": stub.say}]
    stub.issued[stub.say] = blocks
    usage = {"inputTokens": 100, "outputTokens": 50, "totalTokens": 5150}
    usage |= {"cacheReadInputTokens": 3000, "cacheWriteInputTokens": 2000}
    found = {
        "output": {"message": {"role": "assistant", "content": blocks}},
        "stopReason": "end_turn",
        "usage": usage,
        "metrics": {"latencyMs": 10},
    }
    return JSON, json.dumps(found).encode()


FORMATS = {
    r"/v1/messages": anthropic,
    r"/responses": responses,
    r"/chat/completions": chat,
    r":generateContent": gemini,
    r"/converse$": bedrock,
}
