"""Golden compaction choices: rowsets in, choice out (`golden/choices.txt`, in the form that `golden` has).

A command has a line for each rowset: the first and last key, between 0 and 100, and its size in MiB. The output is what
`CompactionPolicy.choose` merges within 256 MiB.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nyala.storage.keys.key_spans import RowSetExtent
from nyala.storage.maintenance.compaction_policy import CompactionPolicy

MIB = 1 << 20
POLICY = CompactionPolicy(budget_bytes=256 * MIB, target_bytes=64 * MIB)


def key(place: str) -> bytes:
    return int(float(place) / 100 * (1 << 60)).to_bytes(8, "big")


def choice_of(command: str) -> str:
    """The choice among the rowsets of a command."""
    rowsets = []
    for line in command.splitlines():
        low, high, size = line.split()
        rowsets.append(RowSetExtent(key(low), key(high), int(float(size) * MIB)))
    choice = POLICY.choose(rowsets)
    if choice is None:
        return "no merge pays"
    return (
        f"merge {', '.join(str(place) for place in choice.rowsets)}: {choice.size / MIB:g} MiB\n"
        f"height {choice.height_before:.2f} before, {choice.height_after:.2f} after; worth {choice.worth:.2f}"
    )


def test_rowsets_are_merged_as_they_were(golden: Callable[[Path, Callable[[str], str]], None]) -> None:
    golden(Path(__file__).parent / "golden" / "choices.txt", choice_of)
