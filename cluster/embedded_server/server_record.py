"""DIR/owner: the process that serves the store in a directory, and its address.

{"address": "127.0.0.1:40123", "id": "9f...", "pid": 4711, "place": "66306:1182", "idle_exit": 60.0}

The file is replaced as a whole. A killed process leaves it behind, so it is not reliable by itself: its reader calls
the address to check that the server with this id runs there. `place` is the directory itself (device and inode): a copy
of the directory has another one, and no server. No address: the process has the store, and does not serve it yet (it is
being opened) or any more (it is being closed); the reader should wait for it.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from ...errors import DeadlineExceeded, Error
from ..decoders import json_decoder
from ..wire.calls.rpc import Channel
from ..wire.client_clock import ClientClock
from ..wire.messages.methods import GetStatus
from ..wire.process.forking import note_process

NAME = "owner"
LOG = "owner.log"
ANSWER_SECONDS = 5.0


class ServerRecord(Struct, frozen=True, kw_only=True):
    """The content of the file."""

    address: str
    id: str
    pid: int
    place: str
    idle_exit: float | None = None
    """Seconds without a call after which the server ends; None: never."""

    @property
    def url(self) -> str:
        """URL for clients."""
        return f"nyala://{self.address}"

    def write(self, directory: str) -> None:
        """Replaces the file."""
        path = Path(directory) / NAME
        temporary = path.with_name(f"{NAME}.tmp")
        temporary.write_bytes(msgspec.json.encode(self))
        temporary.replace(path)

    def remove(self, directory: str) -> None:
        """Removes the file if it belongs to this server."""
        record = _read(directory)
        if record is not None and record.id == self.id:
            (Path(directory) / NAME).unlink(missing_ok=True)

    def has_store(self, directory: str) -> bool:
        """True if the process is alive, and the last one that has locked the store."""
        try:
            holder = (Path(directory) / "LOCK").read_text(errors="replace").strip()
        except FileNotFoundError:
            return False
        return holder == str(self.pid) and self.is_alive

    @property
    def is_alive(self) -> bool:
        """True if a process with its id exists."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # another user's process
            return True
        return True

    def answers(self, directory: str) -> bool:
        """True if the server responds at its address; also if its response is late, and its process has the store.
        Raises `InterfaceError` in a process that was forked from one that uses gRPC."""
        note_process()
        channel = Channel(self.address, ClientClock())
        try:
            return bool(channel.call(GetStatus(), timeout=ANSWER_SECONDS).id == self.id)
        except DeadlineExceeded:
            return self.has_store(directory)
        except Error:
            return False
        finally:
            channel.close()


_decoder = json_decoder(ServerRecord)


def place_of(directory: str) -> str:
    """Returns the identity of a directory, which its copies do not share."""
    status = Path(directory).stat()
    return f"{status.st_dev}:{status.st_ino}"


def find_server(directory: str) -> ServerRecord | None:
    """Returns the record of the process that serves a directory, or is about to (no address); None if there is none."""
    while True:
        record = _read(directory)
        if record is None or record.place != place_of(directory):
            return None
        if not record.address:
            return record if record.has_store(directory) else None
        if record.answers(directory):
            return record
        if _read(directory) == record:  # it has not announced meanwhile that it is closing
            return None


def _read(directory: str) -> ServerRecord | None:
    try:
        return _decoder.decode((Path(directory) / NAME).read_bytes())
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError, ValueError):
        return None
