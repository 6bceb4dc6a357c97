"""A server of the PostgreSQL protocol, and a client in bytes, for tests of doors/postgres."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import nyala
from nyala.doors.postgres import serve
from nyala.doors.postgres.protocol.reader import MessageReader
from nyala.doors.postgres.server.server import PostgresServer
from nyala.doors.postgres.session.backend import Backend
from nyala.doors.postgres.session.client_settings import ClientSettings

PATIENCE = 60.0


def until(condition: Callable[[], Any]) -> None:
    """Waits for a condition; fails at a timeout."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.002)


@contextmanager
def served(connection: nyala.driver.connection.Connection | None = None, **options: Any) -> Iterator[PostgresServer]:
    """A server of a store, in memory if none is given."""
    own = nyala.connect(":memory:") if connection is None else connection
    try:
        with serve(own, **options) as server:
            yield server
    finally:
        if connection is None:
            own.close()


def dsn(server: PostgresServer, **more: Any) -> str:
    """The connection string of libpq."""
    words = {"host": "127.0.0.1", "port": server.port, "user": "me", "dbname": "store", "connect_timeout": 60, **more}
    return " ".join(f"{name}={value}" for name, value in words.items())


# ---- bytes -----------------------------------------------------------------------------------------------------------


def text(value: str) -> bytes:
    """A text as messages have it."""
    return value.encode() + b"\0"


def message(kind: str, body: bytes = b"") -> bytes:
    """A message of a client."""
    return kind.encode() + struct.pack("!i", len(body) + 4) + body


def startup(minor: int = 0, **parameters: str) -> bytes:
    """The start-up message."""
    pairs = b"".join(text(name) + text(value) for name, value in {"user": "me", **parameters}.items())
    body = struct.pack("!HH", 3, minor) + pairs + b"\0"
    return struct.pack("!i", len(body) + 4) + body


def query(sql: str) -> bytes:
    """Query."""
    return message("Q", text(sql))


def parse(sql: str, name: str = "", *oids: int) -> bytes:
    """Parse."""
    return message("P", text(name) + text(sql) + struct.pack(f"!h{len(oids)}I", len(oids), *oids))


def bind(
    *values: bytes | None,
    portal: str = "",
    name: str = "",
    formats: tuple[int, ...] = (),
    results: tuple[int, ...] = (),
) -> bytes:
    """Bind."""
    parts = [
        text(portal),
        text(name),
        struct.pack(f"!h{len(formats)}h", len(formats), *formats),
        struct.pack("!h", len(values)),
    ]
    for value in values:
        parts.append(struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value)
    return message("B", b"".join((*parts, struct.pack(f"!h{len(results)}h", len(results), *results))))


def describe(kind: str = "P", name: str = "") -> bytes:
    """Describe."""
    return message("D", kind.encode() + text(name))


def execute(rows: int = 0, portal: str = "") -> bytes:
    """Execute."""
    return message("E", text(portal) + struct.pack("!i", rows))


SYNC = message("S")


def replies(data: bytes) -> list[tuple[str, bytes]]:
    """Kind and body of each message of a server."""
    found = []
    place = 0
    while place < len(data):
        (size,) = struct.unpack_from("!i", data, place + 1)
        found.append((chr(data[place]), data[place + 5 : place + 1 + size]))
        place += 1 + size
    return found


def texts(body: bytes) -> list[str]:
    """The parts of a body between zero bytes."""
    return [part.decode(errors="replace") for part in body.split(b"\0") if part]


def row(body: bytes) -> list[bytes | None]:
    """The fields of DataRow."""
    (count,) = struct.unpack_from("!h", body)
    place, fields = 2, []
    for _ in range(count):
        (size,) = struct.unpack_from("!i", body, place)
        place += 4
        fields.append(None if size < 0 else body[place : place + size])
        place += max(0, size)
    assert place == len(body)
    return fields


def shown(kind: str, body: bytes) -> str:
    """A message of the server as a line."""
    if kind in "EN":
        fields = {part[0]: part[1:] for part in texts(body)}
        words = [fields.get(code, "") for code in "SCM"]
        words += [
            f"{name}={fields[code]}"
            for code, name in (("D", "detail"), ("H", "hint"), ("P", "position"))
            if code in fields
        ]
        return f"{'Error' if kind == 'E' else 'Notice'} {' '.join(words)}"
    if kind == "D":
        return "Row " + " | ".join("NULL" if f is None else f.decode(errors="backslashreplace") for f in row(body))
    if kind == "T":
        (count,) = struct.unpack_from("!h", body)
        place, columns = 2, []
        for _ in range(count):
            end = body.index(b"\0", place)
            name = body[place:end].decode()
            _, _, oid, _size, modifier, format_ = struct.unpack_from("!IhIhih", body, end + 1)
            columns.append(f"{name}:{oid}" + (f"({modifier})" if modifier != -1 else "") + ("b" if format_ else ""))
            place = end + 19
        return "Columns " + ", ".join(columns)
    if kind == "t":
        (count,) = struct.unpack_from("!h", body)
        return "Parameters " + " ".join(map(str, struct.unpack_from(f"!{count}I", body, 2)))
    if kind == "C":
        return "Complete " + texts(body)[0]
    if kind == "Z":
        return "Ready " + body.decode()
    if kind == "S":
        return "Status " + " = ".join(texts(body))
    if kind in "GH":
        return (
            "CopyIn" if kind == "G" else "CopyOut"
        ) + f" format {body[0]} columns {struct.unpack_from('!h', body, 1)[0]}"
    if kind == "d":
        return "Data " + body.decode(errors="backslashreplace").replace("\n", "\\n")
    names = {
        "1": "ParseComplete",
        "2": "BindComplete",
        "3": "CloseComplete",
        "n": "NoData",
        "I": "Empty",
        "s": "Suspended",
        "c": "CopyDone",
    }
    return names.get(kind, kind)


class Talk:
    """A client's conversation with a backend, in this thread: bytes in, bytes out, no sockets."""

    def __init__(self, connection: Any, **parameters: str):
        self._reader = MessageReader()
        self._reader.is_started = self._reader.is_authenticated = True
        self._queue: list[Any] = []
        self.backend = Backend(
            connection.duplicate(),
            ClientSettings("me", parameters),
            lambda: type(self._queue[0]) if self._queue else None,
        )

    def send(self, data: bytes) -> bytes:
        """Returns the backend's response to these bytes."""
        self._reader.feed(data)
        while (found := self._reader.take()) is not None:
            self._queue.append(found)
        out = b""
        while self._queue:
            out += b"".join(self.backend.handle(self._queue.pop(0)))
        return out

    def lines(self, data: bytes) -> list[str]:
        """The same as lines."""
        return [shown(kind, body) for kind, body in replies(self.send(data))]

    def close(self) -> None:
        self.backend.close()


class Wire:
    """A socket to a server."""

    def __init__(self, server: PostgresServer, start: bytes | None = None):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
        self._data = b""
        if start is not None:
            self.socket.sendall(start)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def message(self) -> tuple[str, bytes]:
        """The next message; ("", b"") at the end."""
        while len(self._data) < 5 or len(self._data) < 1 + struct.unpack_from("!i", self._data, 1)[0]:
            try:
                piece = self.socket.recv(1 << 16)
            except ConnectionResetError:
                piece = b""
            if not piece:
                return "", b""
            self._data += piece
        (size,) = struct.unpack_from("!i", self._data, 1)
        found, self._data = self._data[: 1 + size], self._data[1 + size :]
        return chr(found[0]), found[5:]

    def until(self, kind: str) -> list[tuple[str, bytes]]:
        """Messages up to one of a kind, or the end."""
        found = []
        while True:
            one = self.message()
            found.append(one)
            if one[0] in (kind, ""):
                return found

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
