"""Ports for servers: none that is in use, or that the system may assign to an outgoing connection."""

from __future__ import annotations

import random
import socket
from pathlib import Path

import pytest
from nyala.cluster.admin import ports
from nyala.cluster.admin.ports import HOST, free_ports
from nyala.errors import InterfaceError


def test_ports_lie_below_those_that_the_system_gives_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "ip_local_port_range"
    monkeypatch.setattr(ports, "_EPHEMERAL_RANGE", settings)
    for text, first in (("20000\t60999\n", 20_000), ("", 32_768), ("1024 65535", 11_000)):
        settings.write_text(text)
        found = free_ports(50)
        assert len(set(found)) == 50
        assert all(10_000 <= port < first for port in found)


def test_ports_that_are_taken_or_listened_on_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = free_ports(3)
    monkeypatch.setattr(random, "sample", lambda population, k: [first, second, third])
    with socket.create_server((HOST, second)):
        assert free_ports(1, {first}) == [third]
        with pytest.raises(InterfaceError, match=r"tried, 1 are free, not 2$"):
            free_ports(2, {first})
