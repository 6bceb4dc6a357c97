"""DIR/consensus: the state that a peer keeps over restarts, apart from the log.

    field           meaning
    term, vote      the peer's term, and the candidate that it voted for in it
    configuration   the newest committed one; a later one is in the log
    base            (index, term) of the last entry removed from the log: all up to it is in the tablet's files
    clock_limit     the greatest hybrid time up to which the peer had allowed timestamps, when the file was written
    clock_lead      no such limit has been further ahead of the peer's own wall clock than this since (microseconds)

The file names its tablet (`checked_structs`). It is replaced as a whole (`storage.files.checked_file`) before any
message that depends on it is sent. Leaders request a higher clock limit in every round; that costs no write, since the
lead over the wall clock stays the same.
"""

from __future__ import annotations

import threading
from typing import Any

import msgspec
from msgspec import Struct

from ...model.clock import LOGICAL_BITS
from ...storage.files.filesystem import FileSystem
from ..decoders import msgpack_decoder
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
        """Returns an upper bound of all limits that the peer has allowed, when its wall clock shows `microseconds`."""
        return max(self.clock_limit, (microseconds + self.clock_lead) << LOGICAL_BITS if self.term else 0)


_decode = msgpack_decoder(ConsensusState).decode


def read_consensus(fs: FileSystem, directory: str) -> ConsensusState:
    """Reads the file of a tablet; raises `CorruptionError` if it is damaged, `DiskError` if it does not exist."""
    return read_struct(fs, f"{directory}/{NAME}", MAGIC, VERSION, _decode)


def write_consensus(fs: FileSystem, directory: str, state: ConsensusState) -> None:
    """Durably replaces the file; after a `DiskError` either the old file or the new one exists."""
    replace_struct(fs, f"{directory}/{NAME}", MAGIC, VERSION, state)


class ConsensusFile:
    """The file of an open tablet. Thread-safe: `update` acquires the file's own lock, and holds it while writing."""

    def __init__(self, fs: FileSystem, directory: str):
        self._fs = fs
        self._directory = directory
        self._lock = threading.Lock()
        self.state = read_consensus(fs, directory)
        """The file's content."""

    def update(self, **changes: Any) -> None:
        """Durably replaces some fields; raises `DiskError`.

        A configuration older than the file's is ignored: a concurrent writer was faster, and the log may have lost the
        newer one by now. Committed configurations are never taken back.
        """
        with self._lock:
            if "configuration" in changes and changes["configuration"].index < self.state.configuration.index:
                del changes["configuration"]
            state = msgspec.structs.replace(self.state, **changes)
            write_consensus(self._fs, self._directory, state)
            self.state = state
