"""Addresses as "host:port"; an IPv6 host stands in brackets."""

from __future__ import annotations

import ipaddress


def address_of(host: str, port: int) -> str:
    """Returns the address of a host and port.

    >>> address_of("::1", 7051)
    '[::1]:7051'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_of(address: str) -> str:
    """Returns the host of an address."""
    return address.rpartition(":")[0].strip("[]")


def port_of(address: str) -> int:
    """Returns the port of an address."""
    return int(address.rpartition(":")[2])


def is_loopback(host: str) -> bool:
    """True if a host is this machine's own interface: a loopback address, or "localhost". Other names are not
    resolved.

    >>> hosts = "127.0.0.1", "[::1]", "::ffff:127.0.0.1", "localhost", "0.0.0.0", "127.example.org"
    >>> [is_loopback(host) for host in hosts]
    [True, True, True, True, False, False]
    """
    name = host.strip("[]").partition("%")[0].lower().rstrip(".")
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost"
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
