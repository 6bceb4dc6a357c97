"""The account of the process at the other end of a loopback connection, as the kernel lists it.

    /proc/net/tcp, tcp6     local_address rem_address st ... uid          one line for each socket of the machine

The line of the client's own socket has its address as `local_address`, and the server's as `rem_address`. There is none
for a client of another machine, and none at all on systems without /proc: the account is unknown then.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED: Final = "01"
_ROOT: Final = 0


def is_local_owner(client: str, ports: Collection[int]) -> bool:
    """True if a client is a process of this process's account, or of root, on this machine.

    Parameters
    ----------
    client : str
        Its address, "host:port".
    ports : collection of int
        At which this process accepts connections; the client has one to one of them.
    """
    return account_of(client, ports) in (os.geteuid(), _ROOT)


def is_known_here() -> bool:
    """True if this system lists the accounts of connections."""
    return _TABLES[0].exists()


def account_of(client: str, ports: Collection[int]) -> int | None:
    """The number of the account of a client's process; None if it is unknown. Parameters as of `is_local_owner`."""
    host, _, port = client.rpartition(":")
    try:
        wanted = _plain(ip_address(host.strip("[]"))), int(port)
    except ValueError:
        return None
    found = {account for own, other, account in _connections() if own == wanted and other[1] in ports}
    return found.pop() if len(found) == 1 else None


def _connections() -> Iterator[tuple[tuple[object, int], tuple[object, int], int]]:
    """The open connections: own end, other end, account."""
    for table in _TABLES:
        try:
            lines = table.read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if len(words) > 7 and words[3] == _ESTABLISHED:
                yield _end(words[1]), _end(words[2]), int(words[7])


def _end(written: str) -> tuple[object, int]:
    """An address in a table: words of 32 bits in the machine's order, and a port.

    >>> _end("0100007F:1F90")
    (IPv4Address('127.0.0.1'), 8080)
    """
    address, _, port = written.partition(":")
    words = [int(address[start : start + 8], 16) for start in range(0, len(address), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    return _plain(IPv4Address(packed) if len(packed) == 4 else IPv6Address(packed)), int(port, 16)


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """An IPv4 address that is written as one of IPv6 as what it is."""
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
