"""Chooses the upserted rows so that an answer of Q1 shows whether it was computed on a consistent snapshot.

Each writer upserts its own rows in pairs, one after the other, each in a separate transaction:

    first    a row of the lower half of the keys gets 1 more of l_quantity
    second   a row of the upper half of the keys gets 1 less

In some pairs a new row comes first, with a quantity of 0, and the second row keeps its quantity.

The second upsert begins when the first is acknowledged, so a reader that sees the second also sees the first. In any
consistent snapshot, the sum of l_quantity over the table is the original one, or more by at most 1 for each writer. A
scan that reads each row's latest state in turn includes later writes in the upper half, and its sum is too small. The
number of rows grows by the new ones only: at least by those acknowledged before the query began, at most by those that
had begun when it ended. So the check finds lost rows, repeated rows and late rows.

All of these rows satisfy Q1's condition. An upsert sets all sixteen columns and changes l_linestatus, so that it moves
its row to another of Q1's groups.
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
"""Maximum number of rows from which upserts choose; they are then reused."""
_LAST_DAY: Final = datetime.date(1998, 9, 2)
"""Q1 reads rows that were shipped up to this day."""
_QUANTITY, _STATUS, _COMMENT = (COLUMNS.index(name) for name in ("l_quantity", "l_linestatus", "l_comment"))
_TURNED: Final = {"F": "O", "O": "F"}


class RowStream:
    """An endless stream of one writer's rows. Used by its writer only, except for the counters, which other threads may
    read.

    Parameters
    ----------
    low, high : sequence of Row
        Rows of the lower and of the upper half of the keys, at least one of each, in the order of `COLUMNS`.
    new_keys : iterator of int
        Order keys that the table does not have.
    new_share : float
        Fraction of rows with a new key.
    seed : int
    """

    def __init__(
        self, low: Sequence[Row], high: Sequence[Row], new_keys: Iterator[int], new_share: float, seed: int
    ) -> None:
        self.begun = 0
        """Number of new rows returned so far."""
        self.done = 0
        """The number of them that were acknowledged."""
        self._halves = (list(low), list(high))
        self._new_keys = new_keys
        self._share = 2 * new_share
        self._random = random.Random(seed)
        self._number = 0
        self._more = 0
        self._is_new = False

    def next_row(self) -> Row:
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
        """Records that the last row of `next_row` is durable."""
        self.done += self._is_new


def _changed(row: Row, quantity: Decimal, number: int) -> Row:
    values = list(row)
    values[_QUANTITY] += quantity
    values[_STATUS] = _TURNED[values[_STATUS]]
    values[_COMMENT] = f"{values[_COMMENT][:30]} #{number}"
    return tuple(values)


def row_streams(source: Path, writers: int, new_share: float, seed: int) -> list[RowStream]:
    """A stream for each writer over rows of a Parquet file of lineitem; no row is in two of them.

    Raises `OperationalError` if the file has too few rows.
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
    """Rows from the whole file that satisfy Q1's condition, by key."""
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
