"""Lazy columns over several batches, as a join's build side or a sort keeps them before the needed rows are known.

`joined` makes one batch of many without reading a column. Its columns are read for the requested rows only, until
enough rows were requested that reading all of them at once is cheaper. Unlike other batches, several threads may use it
concurrently.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from ..model import arrow_functions as pc
from ..model.arrow_arrays import arrow_array, arrow_scalar
from ..model.types import DataType, Kind
from ..model.vectors.vector import (
    Array,
    Batch,
    Const,
    Dict,
    Flat,
    LazyColumn,
    Narrow,
    Text,
    Vector,
    Wide,
    concat,
    spread,
    vector_from_arrow,
)
from ..sql.expressions import Column

_WHOLE_SHARE = 8
"""Once piecemeal reads cost this share of a read of the whole column, an eighth, the whole column is read and kept."""
_ENCODED_SHARE = 4
"""Multiple of its rows that were requested of a column of texts, before it is encoded: the labels of a dimension, but
no column of which each row is requested once."""
_READ_ROWS = 128
"""Rows that each read of a batch counts for in addition to its own: the many small batches that selective scans leave
are thus read whole at once. If the rows of one such join feed the next, piecemeal reads would multiply."""
_FEW_ROWS = 1024
"""Number of requested rows up to which the batches that hold them are counted; more of them are assumed in all."""


def empty_vector(type_: DataType) -> Vector:
    """Make a vector of no rows."""
    if type_.is_text:
        return Text(type_, arrow_array([], type_.arrow))
    if type_.is_decimal and (type_.precision or 0) > 18:
        return Flat(type_, np.empty(0, np.int64))
    if type_.kind in (Kind.INTERVAL, Kind.NULL):
        return Const(type_, None, 0)
    return Flat(type_, np.empty(0, type_.dtype))


def empty_batch(columns: Sequence[Column]) -> Batch:
    """Make a batch of no rows."""
    return Batch([empty_vector(column.type) for column in columns], 0)


def concat_batches(batches: Sequence[Batch]) -> Batch:
    """Return one batch of all rows of `batches` (at least one), every column read."""
    if len(batches) == 1:
        return batches[0]
    width = batches[0].width
    columns = [concat([b.column(i) for b in batches]) for i in range(width)]
    return Batch(columns, sum(b.length for b in batches))


def joined(columns: Sequence[Column], batches: Sequence[Batch]) -> Batch:
    """Return one batch of all rows, in order, nothing read yet; `columns` define the types if there are no rows."""
    filled = [batch for batch in batches if batch.length]
    if not filled:
        return empty_batch(columns)
    lock = threading.Lock()
    offsets = np.cumsum([0, *(batch.length for batch in filled)])
    pieces = _Pieces(filled, offsets)
    slots = [LazyColumn(_Joined(filled, index, offsets, pieces, lock)) for index in range(filled[0].width)]
    return Batch(slots, int(offsets[-1]))


class _Pieces:
    """Requested rows, batch by batch. Those of a request for few rows are kept: the columns of a wide result are all
    read at the same rows. Callers hold the lock of the batches."""

    def __init__(self, batches: Sequence[Batch], offsets: Array):
        self._batches = batches
        self._offsets = offsets
        self._rows: Array | None = None
        self._kept: list[Batch] = []
        self._back: Array = offsets

    def column(self, index: int, rows: Array) -> Vector:
        """One column at these rows, at least one."""
        if len(rows) > _FEW_ROWS:
            pieces, back = self._cut([batch.project([index]) for batch in self._batches], rows)
            return concat([piece.column(0) for piece in pieces]).take(back)
        pieces = self.few(rows)
        return concat([piece.column(index) for piece in pieces]).take(self._back)

    def few(self, rows: Array) -> list[Batch]:
        """The requested rows of each batch that has some of them."""
        if self._rows is not rows:
            self._kept, self._back = self._cut(self._batches, rows)
            self._rows = rows
        return self._kept

    def _cut(self, batches: Sequence[Batch], rows: Array) -> tuple[list[Batch], Array]:
        """The rows of each batch that has some, in its order, and the position among these of each requested row."""
        order = np.argsort(rows, kind="stable")
        ordered = rows.take(order)
        cuts = np.searchsorted(ordered, self._offsets)
        pieces = []
        for number, batch in enumerate(batches):
            first, last = cuts[number], cuts[number + 1]
            if first < last:
                pieces.append(batch.select(ordered[first:last] - self._offsets[number]))
        back = np.empty(len(rows), np.intp)
        back[order] = np.arange(len(rows))
        return pieces, back


class _Joined:
    """Loader of one column; see the module's docstring. All columns of the batches share `lock`, because the batches
    below are for one thread at a time."""

    def __init__(self, batches: Sequence[Batch], index: int, offsets: Array, pieces: _Pieces, lock: threading.Lock):
        self._batches = batches
        self._index = index
        self._offsets = offsets
        self._pieces = pieces
        self._lock = lock
        self._served = 0
        self._whole: Vector | None = None
        self._is_plain = True

    def __call__(self, rows: Array | None) -> Vector:
        whole = self._whole
        if whole is None:
            with self._lock:
                if self._whole is None and not self._wants_whole(rows):
                    assert rows is not None
                    return self._piecemeal(rows)
                whole = self._read_whole()
        if rows is None:
            return whole
        if self._is_plain and isinstance(whole, Text):
            whole = self._encoded(whole, len(rows))
        return whole.take(rows)

    def _encoded(self, whole: Text, rows: int) -> Vector:
        """Encode texts by a dictionary once each was requested a few times: taking codes is cheaper than copying texts,
        and operators above need not encode them, batch by batch."""
        with self._lock:
            if not self._is_plain:
                return self._whole or whole
            self._served += rows
            if self._served < _ENCODED_SHARE * len(whole):
                return whole
            self._is_plain = False
            encoded = vector_from_arrow(whole.type, whole.array.dictionary_encode())
            if isinstance(encoded, Dict) and len(encoded.dictionary):
                codes = encoded.codes.astype(np.min_scalar_type(len(encoded.dictionary) - 1))
                self._whole = Dict(whole.type, codes, encoded.dictionary, encoded.validity, ordered=False)
            return self._whole or whole

    def _wants_whole(self, rows: Array | None) -> bool:
        if rows is None or all(batch.is_loaded(self._index) for batch in self._batches):
            return True
        reads = count = len(self._batches)
        if len(rows) <= _FEW_ROWS:
            # The first rows of all, by some order, need not lie in every batch.
            reads = len(self._pieces.few(rows))
        self._served += len(rows) + _READ_ROWS * reads
        return self._served * _WHOLE_SHARE >= int(self._offsets[-1]) + _READ_ROWS * count

    def _read_whole(self) -> Vector:
        if self._whole is None:
            self._whole = concat([batch.column(self._index) for batch in self._batches])
        return self._whole

    def _piecemeal(self, rows: Array) -> Vector:
        """Read the rows batch by batch, and restore the requested order."""
        if not len(rows):
            return self._batches[0].project([self._index]).select(rows).column(0)
        return self._pieces.column(self._index, rows)


def with_validity(vector: Vector, validity: Array | None) -> Vector:
    """Return the same values, NULL wherever `validity` is False (and where they were NULL before)."""
    if validity is None:
        return vector
    if isinstance(vector, Const) and vector.value is None:
        return vector
    if vector.validity is not None:
        validity = validity & vector.validity
    if isinstance(vector, Narrow):
        return Narrow(vector.type, vector.codes, vector.base, validity, vector.top)
    if isinstance(vector, Dict):
        return Dict(vector.type, vector.codes, vector.dictionary, validity, vector.ordered)
    if isinstance(vector, Text | Wide):
        masked = pc.if_else(arrow_array(validity), vector.array, arrow_scalar(None, vector.array.type))
        return type(vector)(vector.type, masked)
    if isinstance(vector, Const) and (vector.type.is_text or vector.type.kind is Kind.INTERVAL):
        if vector.type.is_text:
            dictionary = arrow_array([vector.value], vector.type.arrow)
            return Dict(vector.type, np.zeros(len(vector), np.uint8), dictionary, validity)
    vector = spread(vector)
    if isinstance(vector, Wide):
        return with_validity(vector, validity)
    bounds = vector.bounds()
    low, high = bounds if bounds is not None else (None, None)
    return Flat(vector.type, vector.values(), validity, low, high)


def null_extended(source: Batch, rows: Array) -> list[LazyColumn]:
    """Return all columns of `source` at `rows`, NULL for a negative row; read at first access."""
    return [LazyColumn(_NullExtended(source, index, rows)) for index in range(source.width)]


class _NullExtended:
    def __init__(self, source: Batch, index: int, rows: Array):
        self._source = source
        self._index = index
        self._rows = rows

    def __call__(self, chosen: Array | None) -> Vector:
        rows = self._rows if chosen is None else self._rows.take(chosen)
        present = rows >= 0
        column = self._source.project([self._index])
        if not self._source.length or not present.any():
            return Const(column.select(np.empty(0, np.intp)).column(0).type, None, len(rows))
        if present.all():
            return column.select(rows).column(0)
        return with_validity(column.select(np.maximum(rows, 0)).column(0), present)
