"""DIR/owner: which process serves the store in a directory, and where.

    {"address": "127.0.0.1:40123", "id": "9f...", "pid": 4711, "place": "66306:1182", "idle_exit": 60.0}

The file is replaced as a whole, and says nothing by itself: a process that was killed leaves it. So whoever reads it
asks at the address whether the owner with this id is there. `place` is the directory itself (device and inode): a copy
of the directory has another one, and nobody serves it. No address: the process has the store, and does not serve it yet
(it is being opened) or any more (it is being closed); it is worth waiting for.
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


class OwnerRecord(Struct, frozen=True, kw_only=True):
    """What the file says."""

    address: str
    id: str
    pid: int
    place: str
    idle_exit: float | None = None
    """The owner ends when it was not called for so many seconds; None: not by itself."""

    @property
    def url(self) -> str:
        """What clients connect to."""
        return f"nyala://{self.address}"

    def write(self, directory: str) -> None:
        """Replace the file."""
        path = Path(directory) / NAME
        temporary = path.with_name(f"{NAME}.tmp")
        temporary.write_bytes(msgspec.json.encode(self))
        temporary.replace(path)

    def remove(self, directory: str) -> None:
        """Remove the file, where it is of this owner."""
        found = _read(directory)
        if found is not None and found.id == self.id:
            (Path(directory) / NAME).unlink(missing_ok=True)

    def has_store(self, directory: str) -> bool:
        """Is the process alive, and the last one that has locked the store?"""
        try:
            holder = (Path(directory) / "LOCK").read_text(errors="replace").strip()
        except FileNotFoundError:
            return False
        return holder == str(self.pid) and self.is_alive

    @property
    def is_alive(self) -> bool:
        """Is there a process with its id?"""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # another user's
            return True
        return True

    def answers(self, directory: str) -> bool:
        """Is the owner there, at its address? One that takes too long for its answer is, if its process has the store.
        `InterfaceError` in a process that was forked from one that uses gRPC."""
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


_decoder = json_decoder(OwnerRecord)


def place_of(directory: str) -> str:
    """What tells a directory from its copies."""
    found = Path(directory).stat()
    return f"{found.st_dev}:{found.st_ino}"


def find_owner(directory: str) -> OwnerRecord | None:
    """The process that serves a directory, or is about to (no address); None where none does."""
    while True:
        found = _read(directory)
        if found is None or found.place != place_of(directory):
            return None
        if not found.address:
            return found if found.has_store(directory) else None
        if found.answers(directory):
            return found
        if _read(directory) == found:  # it has not said in the meantime that it is closing
            return None


def _read(directory: str) -> OwnerRecord | None:
    try:
        return _decoder.decode((Path(directory) / NAME).read_bytes())
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError, ValueError):
        return None
