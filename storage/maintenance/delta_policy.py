"""When the deltas of a DiskRowSet are compacted, and which (Kudu paper, section 4.9). Pure: no I/O.

    REDO files   [900 KB][40 KB][60 KB][20 KB][30 KB]      a scan must read and merge each of them
                         └───── one new file ──────┘       minor: files of like size become one
    base data    column 3: 8 % of its values outdated      stays as it is
                 column 5: 35 %                            major: rewritten, its values leave the REDO files

A **minor** compaction joins REDO files that follow each other in time. A file much larger than the others of a run is
left out of it: so each delta is written again about log(n) times, not once per flush, and the number of files grows
with the logarithm of their bytes.

A **major** compaction writes the base data of some columns anew, those with many new values. Updates of one column of a
wide table cost the writing of one column.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

MINOR_FILES = 3
"""Fewer files are not joined."""
MOST_FILES = 12
"""More files than this are joined, independent of their sizes: the most unequal sizes possible have about this
number."""
MAJOR_RATIO = 0.1
"""A column is rewritten when a tenth of its values is outdated: Kudu's `tablet_delta_store_major_compact_min_ratio`."""
MINOR_SCORE = 0.02
"""Value of removing one surplus REDO file, in average rowset heights, as all scores are."""


def minor_compaction(sizes: Sequence[int]) -> range | None:
    """Which REDO files to join: positions among files of these sizes in bytes, in order of time; None for none.

    The longest run whose largest file is no larger than all others of the run together.

    >>> minor_compaction([900, 40, 60, 20, 30])
    range(1, 5)
    >>> minor_compaction([900, 40]) is None
    True
    """
    if len(sizes) > MOST_FILES:
        return range(len(sizes))
    for length in range(len(sizes), MINOR_FILES - 1, -1):
        for start in range(len(sizes) - length, -1, -1):
            run = sizes[start : start + length]
            if 2 * max(run) <= sum(run):
                return range(start, start + length)
    return None


def minor_score(sizes: Sequence[int]) -> float:
    """Score of `minor_compaction`; 0 if there is none."""
    joined = minor_compaction(sizes)
    return MINOR_SCORE * (len(joined) - 1) if joined is not None else 0.0


def major_columns(row_count: int, values: Mapping[int, int]) -> tuple[int, ...]:
    """The columns to rewrite, by ascending id.

    Parameters
    ----------
    row_count : int
        Rows of the base data.
    values : mapping of int to int
        How many values the REDO files bring, by column id.

    Examples
    --------
    >>> major_columns(1000, {3: 80, 5: 350})
    (5,)
    """
    return tuple(sorted(column for column, count in values.items() if count and count >= MAJOR_RATIO * row_count))


def major_score(row_count: int, values: Mapping[int, int], columns: Collection[int]) -> float:
    """Score of `major_columns`: the share of outdated values in the worst column, at most 1; 0 for no column.

    >>> major_score(1000, {3: 80, 5: 350}, (5,))
    0.35
    """
    return max((min(1.0, values[column] / row_count) for column in columns), default=0.0)
