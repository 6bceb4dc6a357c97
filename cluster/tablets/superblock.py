"""DIR/replica: what a replica is, and whether its files are whole.

    field           meaning
    tablet          its description (`wire.messages.methods.Tablet`): the table in a version, and its partition
    state           READY, COPYING or TOMBSTONED
    schema_index    log entry by which the table came to be as it is here; 0: since the tablet was made

    state        the directory has
    READY        everything
    COPYING      what a remote bootstrap had copied until the server died: to be removed, and copied anew
    TOMBSTONED   `consensus` alone: the term and the vote, which must outlive the data

It is replaced as a whole (`storage.files.checked_file`). A directory without it is what a crash left of one that was
being made or removed.
"""

from __future__ import annotations

import enum

import msgspec
from msgspec import Struct

from ...storage.files.checked_file import replace_checked
from ...storage.files.filesystem import FileSystem
from ..consensus.checked_structs import read_struct
from ..decoders import converter
from ..wire.messages.methods import Tablet

MAGIC = b"nyalaREP"
VERSION = 1
NAME = "replica"


class ReplicaState(enum.StrEnum):
    """See the module's page."""

    READY = "READY"
    COPYING = "COPYING"
    TOMBSTONED = "TOMBSTONED"


class Superblock(Struct, frozen=True):
    """The content of the file."""

    tablet: Tablet
    state: ReplicaState
    schema_index: int = 0

    def write(self, fs: FileSystem, directory: str) -> None:
        """Replace the file durably; `DiskError` where the disk fails: then the old one may be there, or the new one."""
        replace_checked(fs, f"{directory}/{NAME}", MAGIC, VERSION, msgspec.to_builtins(self))

    @classmethod
    def read(cls, fs: FileSystem, directory: str) -> Superblock | None:
        """The file of a replica's directory; None where there is none, `CorruptionError` where it is damaged."""
        path = f"{directory}/{NAME}"
        return read_struct(fs, path, MAGIC, VERSION, _from_plain) if fs.exists(path) else None


_from_plain = converter(Superblock)
