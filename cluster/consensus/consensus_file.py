"""DIR/consensus: what a peer must not forget, apart from the log.

    field           meaning
    term, vote      the peer's term, and whom it gave its vote in it
    configuration   the newest committed one; a later one is in the log
    base            (index, term) of the last entry that the log has lost: all up to it is in the tablet's files
    clock_limit     the greatest hybrid time up to which the peer had let a leader give out timestamps, when written
    clock_lead      no such limit has been further ahead of the peer's own wall clock than this since (microseconds)

It names its tablet (`checked_structs`), and is replaced as a whole (`storage.files.checked_file`), before anything goes
out that rests on it. Leaders ask for a higher clock limit in every round; that costs no write, since the lead over the
wall clock stays what it is.
"""

from __future__ import annotations

import threading
from typing import Any

import msgspec
from msgspec import Struct

from ...model.clock import LOGICAL_BITS
from ...storage.files.filesystem import FileSystem
from ..decoders import converter
from ..raft.messages import Configuration, HardState
from .checked_structs import read_struct, replace_struct

MAGIC = b"nyalaCNS"
VERSION = 1
NAME = "consensus"


class ConsensusState(Struct, frozen=True):
    """The content of the file; see the module's page."""

    term: int
    vote: str
    configuration: Configuration
    base_index: int = 0
    base_term: int = 0
    clock_limit: int = 0
    clock_lead: int = 0

    @property
    def hard_state(self) -> HardState:
        return HardState(self.term, self.vote)

    def clock_limit_at(self, microseconds: int) -> int:
        """No limit that the peer has let pass was above this, when its wall clock shows `microseconds`."""
        return max(self.clock_limit, (microseconds + self.clock_lead) << LOGICAL_BITS if self.term else 0)


_from_plain = converter(ConsensusState)


def read_consensus(fs: FileSystem, directory: str) -> ConsensusState:
    """The file of a tablet; `CorruptionError` where it is damaged, `DiskError` where there is none."""
    return read_struct(fs, f"{directory}/{NAME}", MAGIC, VERSION, _from_plain)


def write_consensus(fs: FileSystem, directory: str, state: ConsensusState) -> None:
    """Replace the file durably; `DiskError` where the disk fails: then the old one may be there, or the new one."""
    replace_struct(fs, f"{directory}/{NAME}", MAGIC, VERSION, state)


class ConsensusFile:
    """The file of a tablet that is open. Safe for several threads: `update` takes the file's own lock, which is held
    while it is written."""

    def __init__(self, fs: FileSystem, directory: str):
        self._fs = fs
        self._directory = directory
        self._lock = threading.Lock()
        self.state = read_consensus(fs, directory)
        """What the file says."""

    def update(self, **changes: Any) -> None:
        """Replace some fields, durably; `DiskError` where the disk fails.

        A configuration older than the file's is passed over: its writer was overtaken, and the log may have lost the
        newer one by now. What is committed is never taken back.
        """
        with self._lock:
            if "configuration" in changes and changes["configuration"].index < self.state.configuration.index:
                del changes["configuration"]
            state = msgspec.structs.replace(self.state, **changes)
            write_consensus(self._fs, self._directory, state)
            self.state = state
