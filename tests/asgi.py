"""Clients of a web application that speak to it without a network."""


async def hang_up(app, path, host, headers=()):
    """Post half a body, as a client does that is gone then; raises what the server would print."""
    sent = iter([{"type": "http.request", "body": b"{", "more_body": True}])
    head = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
    named = [(b"host", host.encode()), *headers]

    async def receive():
        return next(sent, {"type": "http.disconnect"})

    async def send(message):
        pass

    await app({**head, "headers": named, "http_version": "1.1", "server": (host, 80), "scheme": "http"}, receive, send)
