"""The rows that are upserted, chosen so that an answer of Q1 tells whether it saw one consistent snapshot.

Each writer upserts rows of its own in pairs, one after the other, each a transaction:

    first    a row of the lower half of the keys gets 1 more of l_quantity
    second   a row of the upper half of the keys gets 1 less

In some pairs a new row comes first, with a quantity of 0, and the second row keeps its quantity.

The second begins when the first is acknowledged, so whoever sees the second sees the first: in any consistent snapshot
the sum of l_quantity over the table is what it was, or more by at most 1 for each writer. A scan that reads its rows
one after the other, as they are when it comes to them, meets later writes in the upper half, and finds too little.
And the number of rows grows by the new ones alone: at least by those that were acknowledged before the query began, at
most by those that had begun when it ended. So nothing is lost, nothing is shown twice, and nothing comes late.

All of these rows are among those that Q1 asks for. An upsert gives all sixteen columns and turns l_linestatus, so that
it moves its row to another of Q1's groups.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...errors import OperationalError
from ...tpch.schema import LINEITEM
from ..arrow import without_string_views
from .model import Row

COLUMNS: Final = tuple(name for name, _ in LINEITEM.columns)
SAMPLED: Final = 40_000
"""Rows that upserts choose from at most; then they begin again."""
_LAST_DAY: Final = datetime.date(1998, 9, 2)
"""Q1 asks for what was shipped up to this day."""
_QUANTITY, _STATUS, _COMMENT = (COLUMNS.index(name) for name in ("l_quantity", "l_linestatus", "l_comment"))
_TURNED: Final = {"F": "O", "O": "F"}


class RowStream:
    """The rows of one writer, without end. Used by its writer alone, but for the counters, which others may read.

    Parameters
    ----------
    low, high : sequence of Row
        Rows of the lower and of the upper half of the keys, at least one of each, in the order of `COLUMNS`.
    new_keys : iterator of int
        Order keys that the table does not have.
    new_share : float
        Of all rows, that come with a key that is not there.
    seed : int
    """

    def __init__(
        self, low: Sequence[Row], high: Sequence[Row], new_keys: Iterator[int], new_share: float, seed: int
    ) -> None:
        self.begun = 0
        """New rows that were handed out."""
        self.done = 0
        """Of these, those that were acknowledged."""
        self._halves = (list(low), list(high))
        self._new_keys = new_keys
        self._share = 2 * new_share
        self._random = random.Random(seed)
        self._number = 0
        self._more = 0
        self._is_new = False

    def take(self) -> Row:
        """The next row to upsert; call `acknowledge` when it is durable."""
        pair, is_second = divmod(self._number, 2)
        self._number += 1
        rows = self._halves[is_second]
        place = pair % len(rows)
        row = rows[place]
        self._is_new = not is_second and self._random.random() < self._share
        if self._is_new:
            self.begun += 1
            self._more = 0
            return _changed((next(self._new_keys), 1, *row[2:]), -row[_QUANTITY], self._number)
        self._more = -self._more if is_second else 1
        row = rows[place] = _changed(row, Decimal(self._more), self._number)
        return row

    def acknowledge(self) -> None:
        """What `take` gave last is durable."""
        self.done += self._is_new


def _changed(row: Row, quantity: Decimal, number: int) -> Row:
    values = list(row)
    values[_QUANTITY] += quantity
    values[_STATUS] = _TURNED[values[_STATUS]]
    values[_COMMENT] = f"{values[_COMMENT][:30]} #{number}"
    return tuple(values)


def row_streams(source: Path, writers: int, new_share: float, seed: int) -> list[RowStream]:
    """A stream for each writer over rows of a Parquet file of lineitem; no row is in two of them.

    Raises `OperationalError` where the file has too few rows.
    """
    rows = _sample(source, seed)
    if len(rows) < 2 * writers:
        raise OperationalError(f"{source} has too few rows for {writers} writers")
    random_ = random.Random(seed)
    middle = len(rows) // 2
    halves = (rows[:middle], rows[middle:])
    for half in halves:
        random_.shuffle(half)
    first = max(row[0] for row in rows) + 1_000_000_000
    return [
        RowStream(
            halves[0][number::writers],
            halves[1][number::writers],
            iter(range(first + number, 1 << 62, writers)),
            new_share,
            seed + number,
        )
        for number in range(writers)
    ]


def _sample(source: Path, seed: int) -> list[Row]:
    """Rows from everywhere in the file that Q1 asks for, by key."""
    file = pq.ParquetFile(source)
    random_ = random.Random(seed)
    share = min(1.0, SAMPLED / max(file.metadata.num_rows, 1))
    rows: list[Row] = []
    for batch in file.iter_batches(1 << 17, columns=list(COLUMNS)):
        chosen = sorted(random_.sample(range(batch.num_rows), round(share * batch.num_rows)))
        piece = plain(batch).take(pa.array(chosen, pa.int64()))
        piece = piece.filter(pc.less_equal(piece["l_shipdate"], _LAST_DAY))
        rows += zip(*(column.to_pylist() for column in piece.columns), strict=True)
    return sorted(rows, key=lambda row: row[:2])


def plain(batch: pa.RecordBatch) -> pa.Table:
    """The columns in the order of `COLUMNS`, with texts of Arrow's usual type."""
    return without_string_views(pa.Table.from_batches([batch]).select(list(COLUMNS)))
