"""Columns of a DiskRowSet at a timestamp with changed cells: base vectors overlaid with patches.

    base       Narrow, codes 3 1 4 1 5, base 100          Dict, codes 0 0 1 1 0, dictionary [AIR, RAIL]
    patches    row 1: 107   row 3: NULL                   row 2: SHIP   row 4: RAIL
    patched    Narrow, codes 3 7 4 - 5, base 100          Dict, codes 0 0 2 1 1, dictionary [AIR, RAIL, SHIP]

Vectors stay encoded: patches become codes, for which the codes are widened where they do not fit. A dictionary that
lacks a patch's value is extended once for the whole rowset, so that all vectors of a scan share one.

`changed_rows_overlay` is about the predicates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_array, fill_nulls, numpy_array
from ...model.schema import ColumnSchema, Encoding
from ...model.vectors.vector import Array, Const, Dict, Flat, Narrow, Text, Vector, Wide, vector_from_arrow
from ..columns.column_reader import ColumnReader
from ..deltas.latest_state import RowSetPatches, places_within

SEARCH_SHARE = 16
"""Ratio of rows to patches from which patches are searched in the selected rows one by one (measured: a search takes 30
ns, marking a row in a map and testing the map 2 ns)."""
_CODES: list[np.dtype[Any]] = [np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32), np.dtype(np.uint64)]


def patched_column(patches: RowSetPatches, column: ColumnSchema, reader: ColumnReader | None) -> PatchedColumn | None:
    """A column of the rowset whose patches are given; None where it has none. `reader` is None where it has no file."""
    if patches.vector(column.id, column.type) is None:
        return None
    key = (column.id, reader)
    cached = patches.kept.get(key)
    if cached is None:
        cached = patches.kept.setdefault(key, PatchedColumn(patches, column, reader))
    assert isinstance(cached, PatchedColumn)
    return cached


class PatchedColumn:
    """Lays the patches of one column over its base vectors. Safe for several threads."""

    def __init__(self, patches: RowSetPatches, column: ColumnSchema, reader: ColumnReader | None):
        patch = patches.vector(column.id, column.type)
        assert patch is not None
        self._type = column.type
        self._rows = patch.rows
        self._values = patch.values
        if column.type.is_text and (reader is None or reader.footer.encoding is Encoding.DICT):
            if reader is not None:
                dictionary = reader.dictionary
            else:
                dictionary = arrow_array([] if column.initial is None else [column.initial], column.type.arrow)
            self._values = _coded(self._values, dictionary)
        elif isinstance(self._values, Flat) and column.type.is_integer_like:
            self._values = _bounded(self._values)

    def covering(self, start: int, stop: int) -> Vector | None:
        """The values of the rows `start` to `stop` (exclusive) if all of them have patches, so that the base data need
        not be read; else None."""
        low, high = places_within(self._rows, start, stop)
        if high - low < stop - start:
            return None
        values = self._values.slice(low, high)
        if isinstance(values, Flat) and self._type.dtype == np.bool_:
            return Flat(self._type, values.values().astype(np.bool_), values.validity)  # integers until here
        return values

    def over(self, base: Vector, start: int, stop: int, rows: Array | None, ascending: bool = False) -> Vector:
        """The patched values of the rows `start` to `stop` (exclusive), or of those of them at `rows` (ndarray of intp
        relative to `start`, in any order, repetitions allowed); `base` has the same rows.

        `ascending`: the rows are, and none occurs twice; that is less work.
        """
        low, high = places_within(self._rows, start, stop)
        places = self._rows[low:high] - start
        values = self._values.slice(low, high)
        if rows is not None and len(places):
            places, which = _in_rows(places, rows, stop - start, ascending)
            values = values.take(which)
        return _overlaid(base, places, values)


def _in_rows(places: Array, rows: Array, length: int, ascending: bool) -> tuple[Array, Array]:
    """Indexes of the `places` that are in `rows`, with their positions there."""
    if ascending and len(rows) > SEARCH_SHARE * len(places):
        found = rows.searchsorted(places)
        which = np.flatnonzero(rows.take(found, mode="clip") == places)
        return found[which], which
    # A search costs more than a map of all rows, as soon as it is not for a few places among many rows.
    if len(rows) * SEARCH_SHARE > length:
        position = np.full(length, -1, np.int32)
        position[places] = np.arange(len(places), dtype=np.int32)
        positions: Array = position.take(rows, mode="clip")
        found = np.flatnonzero(positions >= 0)
        return found, positions[found].astype(np.intp)
    is_place = np.zeros(length, np.bool_)
    is_place[places] = True
    found = np.flatnonzero(is_place.take(rows, mode="clip"))
    return found, places.searchsorted(rows[found])


def _coded(values: Vector, dictionary: pa.Array) -> Dict:
    """Texts as codes into a dictionary, which is extended by those that it lacks."""
    array = values.to_arrow()
    codes = pc.index_in(array, dictionary)
    missing = pc.unique(array.filter(codes.is_null())).drop_null()
    if len(missing):
        ordered = False
        dictionary = pa.concat_arrays([dictionary, missing])
        codes = pc.index_in(array, dictionary)
    else:
        ordered = True
    plain = numpy_array(fill_nulls(codes, 0))
    return Dict(
        values.type, plain.astype(_code_type(max(len(dictionary) - 1, 0))), dictionary, values.validity, ordered
    )


def _bounded(values: Flat) -> Flat:
    """Integers (as int64) with the bounds of those that are present; under NULLs there is one within them."""
    plain = values.values().astype(np.int64)
    present = plain if values.validity is None else plain[values.validity]
    low, high = (int(present.min()), int(present.max())) if len(present) else (0, 0)
    if values.validity is not None:
        plain[~values.validity] = low
    return Flat(values.type, plain, values.validity, low, high)


def _code_type(top: int) -> np.dtype[Any]:
    """The narrowest type of codes up to `top`."""
    return next(dtype for dtype in _CODES if top < 1 << 8 * dtype.itemsize)


def _overlaid(base: Vector, places: Array, values: Vector) -> Vector:
    """`base` with `values` at `places` (ndarray of intp, none twice)."""
    if isinstance(base, Const) and len(places):
        base = _spread(base, values)
    if isinstance(values, Dict):
        return _over_dict(base, places, values)
    if not len(places):
        return base
    if isinstance(base, (Text, Wide)):
        return _over_arrow(base, places, values)
    validity = _over_validity(base, places, values)
    assert isinstance(values, Flat)
    if isinstance(base, Narrow):
        narrow = _over_narrow(base, places, values, validity)
        if narrow is not None:
            return narrow
    return _over_flat(base, places, values, validity)


def _spread(base: Const, values: Vector) -> Vector:
    """A constant as a vector in a form that can be overlaid with `values`."""
    rows = len(base)
    validity = None if base.value is not None else np.zeros(rows, np.bool_)
    if isinstance(values, Dict):
        return Dict(base.type, np.zeros(rows, np.uint8), values.dictionary, validity)
    if base.type.is_text or base.type.is_wide:
        return vector_from_arrow(base.type, base.to_arrow())
    if base.type.is_float:
        return Flat(base.type, base.values(), validity)
    if base.value is not None:
        return Narrow(base.type, np.zeros(rows, np.uint8), int(base.value), None, 0)
    present = values.values() if values.validity is None else values.values()[values.validity]
    return Narrow(base.type, np.zeros(rows, np.uint8), int(present[0]) if len(present) else 0, validity, 0)


def _over_validity(base: Vector, places: Array, values: Vector) -> Array | None:
    if base.validity is None and values.validity is None:
        return None
    validity = np.ones(len(base), np.bool_) if base.validity is None else base.validity.copy()
    validity[places] = True if values.validity is None else values.validity
    return validity


def _over_dict(base: Vector, places: Array, values: Dict) -> Vector:
    """`values.dictionary` begins with that of `base`."""
    if isinstance(base, Const):
        base = _spread(base, values)
    assert isinstance(base, Dict)
    codes = base.codes
    if len(places):
        # Not wider than these rows need: the dictionary may be long, and rarely used here.
        needed = _code_type(int(values.codes.max(initial=0)))
        codes = codes.astype(np.promote_types(codes.dtype, needed))
        codes[places] = values.codes
    validity = _over_validity(base, places, values) if len(places) else base.validity
    return Dict(base.type, codes, values.dictionary, validity, base.ordered and values.ordered)


def _over_narrow(base: Narrow, places: Array, values: Flat, validity: Array | None) -> Narrow | None:
    """None where the codes would take as much as the values."""
    low, high, dtype = base.base, base.bounds()[1], base.codes.dtype
    assert values.low is not None and values.high is not None
    # Nearly always the bounds of all patches fit the codes; if not, perhaps those of the selected rows do.
    if values.low < low or values.high - low >= 1 << 8 * dtype.itemsize:
        plain = values.values() if values.validity is None else values.values()[values.validity]
        low, high = int(plain.min(initial=low)), int(plain.max(initial=high))
        if high - low >= 1 << 64:
            return None
        dtype = np.promote_types(dtype, _code_type(high - low))
        if dtype.itemsize > max(base.codes.dtype.itemsize, base.type.dtype.itemsize - 1):
            return None
    else:
        high = max(high, values.high)
    codes = base.codes.astype(dtype)
    if low < base.base:
        codes += dtype.type(base.base - low)
    # Modulo 2**64 is right for any base: the codes themselves are small. Under NULLs they are arbitrary, but bounded.
    words = values.values().view(np.uint64) - np.uint64(low % 2**64)
    if values.validity is not None:
        words *= values.validity
    codes[places] = words.astype(dtype)
    return Narrow(base.type, codes, low, validity, high - low)


def _over_flat(base: Vector, places: Array, values: Flat, validity: Array | None) -> Flat:
    result = base.values()
    if not isinstance(base, Narrow):  # which makes a new array
        result = result.copy()
    result[places] = values.values()
    bounds = None if base.type.is_float else base.bounds()
    if bounds is None or values.low is None or values.high is None:
        return Flat(base.type, result, validity)
    return Flat(base.type, result, validity, min(bounds[0], values.low), max(bounds[1], values.high))


def _over_arrow(base: Text | Wide, places: Array, values: Vector) -> Vector:
    source = np.arange(len(base), dtype=np.int64)
    source[places] = np.arange(len(base), len(base) + len(places))
    array = pa.concat_arrays([base.array, values.to_arrow()]).take(arrow_array(source))
    return type(base)(base.type, array)
