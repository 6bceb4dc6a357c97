"""DIR/replica: a replica's description, and the state of its files.

    field           meaning
    tablet          its description (`wire.messages.methods.Tablet`): the table in a version, and its partition
    state           READY, COPYING or TOMBSTONED
    schema_index    log entry by which the table got its present form; 0: unchanged since the tablet's creation

    state        the directory has
    READY        everything
    COPYING      an unfinished remote bootstrap: to be removed, and copied again
    TOMBSTONED   `consensus` alone: the term and the vote, which must outlive the data

It is replaced as a whole (`storage.files.checked_file`). A directory without it remains from a crash while a replica
was being created or removed.
"""

from __future__ import annotations

import enum

from msgspec import Struct

from ...storage.files.checked_file import replace_checked
from ...storage.files.filesystem import FileSystem
from ..consensus.checked_structs import read_struct
from ..decoders import msgpack_decoder
from ..wire.messages.methods import Tablet

MAGIC = b"nyalaREP"
VERSION = 1
NAME = "replica"


class ReplicaState(enum.StrEnum):
    """State of a replica's files; see the module's page."""

    READY = "READY"
    COPYING = "COPYING"
    TOMBSTONED = "TOMBSTONED"


class Superblock(Struct, frozen=True):
    """The content of the file."""

    tablet: Tablet
    state: ReplicaState
    schema_index: int = 0

    def write(self, fs: FileSystem, directory: str) -> None:
        """Durably replaces the file; after a `DiskError` either the old file or the new one exists."""
        replace_checked(fs, f"{directory}/{NAME}", MAGIC, VERSION, self)

    @classmethod
    def read(cls, fs: FileSystem, directory: str) -> Superblock | None:
        """Reads the file of a replica's directory; None if it does not exist, `CorruptionError` if it is damaged."""
        path = f"{directory}/{NAME}"
        return read_struct(fs, path, MAGIC, VERSION, _decode) if fs.exists(path) else None


_decode = msgpack_decoder(Superblock).decode
