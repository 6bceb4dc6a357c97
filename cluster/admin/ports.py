"""Ports for servers of this machine that stay free of outgoing connections."""

from __future__ import annotations

import random
import socket
from collections.abc import Set
from pathlib import Path

from ...errors import InterfaceError

HOST = "127.0.0.1"

_LOWEST_PORT = 10_000
_PORTS_TRIED = 1000
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_EPHEMERAL_PORT = 32_768
"""Linux's; macOS, Windows and the BSDs begin higher."""


def free_ports(count: int, taken: Set[int] = frozenset()) -> list[int]:
    """Returns ports of `HOST` that are free now and not `taken` (by servers that may be down).

    They exclude the ports that the system itself assigns: an outgoing connection might have one by the time that the
    server listens there, or while the server is down.
    """
    free: list[int] = []
    for port in random.sample(range(_LOWEST_PORT, _first_ephemeral_port()), _PORTS_TRIED):
        if port in taken:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        free.append(port)
        if len(free) == count:
            return free
    raise InterfaceError(f"of {_PORTS_TRIED} ports of this machine that were tried, {len(free)} are free, not {count}")


def _first_ephemeral_port() -> int:
    """Returns the lowest port that the system assigns to outgoing connections."""
    try:
        return max(int(_EPHEMERAL_RANGE.read_text().split()[0]), _LOWEST_PORT + _PORTS_TRIED)
    except (OSError, ValueError, IndexError):
        return _USUAL_EPHEMERAL_PORT
