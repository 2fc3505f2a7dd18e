"""Refusals of servers and gateways whose words cannot be read: their status says whom they concern all the same."""

import gzip
import time

WORDS = b'{"error": {"message": "no", "code": null}}'


def refuse(status, kind="whole"):
    """A step of a stub: a refusal, with ``retry-after: 2``, whose body is of a kind."""
    encoding, body, promised = {
        "whole": ("identity", WORDS, len(WORDS)),
        "compressed though nobody asked": ("gzip", gzip.compress(WORDS), None),
        "of an unknown encoding": ("br", WORDS, None),
        "not what its head says": ("gzip", WORDS, None),
        "cut": ("identity", WORDS[:13], 500),
        "slow": ("identity", WORDS[:13], 500),
        "long": ("identity", WORDS + b" " * 2**18, None),
        "empty": ("identity", b"", 0),
    }[kind]

    def send(handler):
        handler.send_response(status)
        headers = {
            "content-type": "application/json",
            "content-encoding": encoding,
            "content-length": len(body) if promised is None else promised,
            "retry-after": 2,
        }
        for name, value in headers.items():
            handler.send_header(name, str(value))
        handler.end_headers()
        handler.wfile.write(body)
        handler.wfile.flush()
        if kind == "slow":
            time.sleep(0.3)
        handler.close_connection = True

    return send


KINDS = (
    "whole",
    "compressed though nobody asked",
    "of an unknown encoding",
    "not what its head says",
    "cut",
    "slow",
    "long",
    "empty",
)
MEANINGS = {429: ("passing", False), 401: ("lasting", False), 500: ("passing", False), 504: ("passing", True)}
"""Of some statuses: whom a refusal concerns, and whether it may have been billed."""


async def check_refusals(http, body, script, kind):
    """Ask once for each status; what is known of the refusal does not depend on its words."""
    from cluster.engines.api_errors import EndpointError

    for status, expected in MEANINGS.items():
        script[:] = [refuse(status, kind)]
        try:
            await http.complete(body)
        except EndpointError as error:
            said = (error.status, error.meaning, error.may_cost, error.retry_after)
        assert said == (status, *expected, 2.0), (said, kind)
