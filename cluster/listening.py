"""Where servers listen, and how their addresses are written."""

from __future__ import annotations

import socket

from cluster.errors import UserError
from evals import serving

ALL_ADDRESSES = ("", "0.0.0.0", "::")
"""Hosts that stand for all addresses of this machine."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there, by IPv4 or IPv6 as the host's address is, and by both at ``::``; port 0 takes any free one.

    Raises:
        UserError: that is not possible.
    """
    try:
        return serving.listen(host, port)
    except ValueError as error:
        raise UserError(str(error)) from error


def address_of(host: str, port: int, of_all: str = "localhost") -> str:
    """The address of a server, such as ``http://127.0.0.1:8000`` or ``http://[::1]:8000``.

    Args:
        host: Where it listens.
        port: The same.
        of_all: The name of this machine, where the server listens on all of its addresses.
    """
    if host in ALL_ADDRESSES:
        host = of_all
    is_ipv6 = ":" in host
    return f"http://[{host}]:{port}" if is_ipv6 else f"http://{host}:{port}"


def names_of(host: str) -> set[str]:
    """The names, in lower case, by which a server that listens there may be addressed, beside IP addresses."""
    return {"localhost", socket.gethostname().lower(), host.lower()}
