"""State of a simulated server's disk: a log whose end is not durable yet, and the state that survives a crash.

    SimulatedLog   memory:  base ├──────────────────────────────┤ last
                   durable: base ├────────────┤          pending: append 8, cut to 6, append 7', ...

A crash keeps the durable entries and a random prefix of the pending changes, like a file system that writes pages at
any time, but a log in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nyala.cluster.raft.membership import decode_configuration
from nyala.cluster.raft.messages import Configuration, Entry, HardState
from nyala.storage.log.wal_format import EntryKind

if TYPE_CHECKING:
    from .server import Server


@dataclass(slots=True)
class Disk:
    """The durable part of a server. `snapshot` is what the state machine has flushed: index and digest."""

    hard_state: HardState
    configuration: Configuration
    clock_limit: int = 0
    clock_lead: int = 0
    base_index: int = 0
    base_term: int = 0
    entries: list[Entry] = field(default_factory=list)
    snapshot_index: int = 0
    snapshot_digest: int = 0

    def term(self, index: int) -> int | None:
        """Returns the term of the durable entry at an index."""
        offset = index - self.base_index
        if offset <= 0:
            return self.base_term if offset == 0 else None
        return self.entries[offset - 1].term if offset <= len(self.entries) else None

    def configurations(self) -> list[Configuration]:
        """Returns the configurations that may be in force: the last committed one, and those of the log after it."""
        return [
            self.configuration,
            *(
                decode_configuration(entry.body, entry.index)
                for entry in self.entries
                if entry.kind == EntryKind.CONFIGURATION and entry.index > self.configuration.index
            ),
        ]

    def holds(self, index: int, term: int) -> bool:
        """True if an entry would survive a crash; trimmed entries were flushed."""
        return index < self.base_index or self.term(index) == term

    def apply(self, change: Entry | int) -> None:
        """Appends an entry; a number truncates the log after that index."""
        if isinstance(change, int):
            del self.entries[max(change - self.base_index, 0) :]
        else:
            self.entries.append(change)


class SimulatedLog:
    """Implements `raft.events.Log`: changes are in memory at once, and pending until `flush`."""

    def __init__(self, disk: Disk, server: Server):
        self.disk = disk
        self.base_index = disk.base_index
        self.base_term = disk.base_term
        self.last_index = disk.base_index + len(disk.entries)
        self.pending: list[Entry | int] = []
        self.newest_timestamp = max((entry.timestamp for entry in disk.entries), default=0)
        self.truncations = 0
        self._entries = list(disk.entries)
        self._server = server
        self._invariants = server.simulation.invariants

    def entry(self, index: int) -> Entry:
        return self._entries[index - self.base_index - 1]

    def term(self, index: int) -> int | None:
        offset = index - self.base_index
        if offset > 0:
            return self._entries[offset - 1].term if offset <= len(self._entries) else None
        if offset == 0:
            return self.base_term
        return 0 if index == 0 else None

    def entries(self, first: int, last: int, max_bytes: int) -> Sequence[Entry]:
        base = self.base_index
        self._invariants.require_contract(
            base < first <= last <= self.last_index, "entries {}..{} read of a log that has {}..{}", first, last,
            base + 1, self.last_index,
        )  # fmt: skip
        found = self._entries[first - base - 1 : last - base]
        size = 0
        for count, entry in enumerate(found):
            size += len(entry.body) + 1  # so that a limit of 1 sends even empty entries one by one
            if size > max_bytes and count:
                return found[:count]
        return found

    def append(self, entries: Sequence[Entry]) -> None:
        previous = self._entries[-1] if self._entries else None
        previous_term, newest = (previous.term, previous.timestamp) if previous else (self.base_term, 0)
        for entry in entries:
            self._invariants.appended(self._server, entry, self.last_index + 1, previous_term, newest)
            self._entries.append(entry)
            self.last_index += 1
            previous_term, newest = entry.term, entry.timestamp
        self.pending.extend(entries)
        self.newest_timestamp = max(self.newest_timestamp, newest)

    def truncate(self, last_index: int) -> None:
        self._invariants.require_contract(
            self.base_index <= last_index <= self.last_index, "log {}..{} cut to {}", self.base_index + 1,
            self.last_index, last_index,
        )  # fmt: skip
        del self._entries[last_index - self.base_index :]
        self.last_index = last_index
        self.pending.append(last_index)
        self.truncations += 1

    def flush(self, count: int) -> tuple[int, int]:
        """Makes the oldest pending changes durable; returns index and term of the last durable entry."""
        for change in self.pending[:count]:
            self.disk.apply(change)
        del self.pending[:count]
        last = self.disk.base_index + len(self.disk.entries)
        return last, self.disk.entries[-1].term if self.disk.entries else self.disk.base_term

    def crash(self, kept: int) -> list[Entry | int]:
        """Lets the first `kept` pending changes reach the disk; drops and returns the others."""
        self.flush(kept)
        lost, self.pending = self.pending, []
        return lost

    def remove_through(self, index: int) -> None:
        """Trims the log: removes entries up to `index`, durable and flushed by the state machine, from memory and
        disk."""
        count = index - self.base_index
        self.base_term = self.disk.base_term = self._entries[count - 1].term
        self.base_index = self.disk.base_index = index
        del self._entries[:count]
        del self.disk.entries[:count]
