"""Addresses as "host:port"; an IPv6 host stands in brackets."""

from __future__ import annotations


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
