"""Vectors: columns of values from a tablet scan through the executor, encoded as long as possible.

    Vector ──┬── Flat(values)              numpy array of physical values
             ├── Narrow(codes, base)       value = codes + base; the codes are the narrowest unsigned integers
             ├── Dict(codes, dictionary)   value = dictionary[codes]; the entries are distinct
             ├── Const(value, length)      one value (or NULL), repeated
             ├── Text(array)               Arrow strings or bytes
             └── Wide(array)               Arrow decimal128, for decimals that may pass 18 digits

Vectors are immutable: their arrays are never written, so views of them can be shared. `validity` is a bool array that
is True where a value is present, or None where nothing is NULL; the physical value under a NULL is arbitrary but must
be readable (a code below a NULL is a valid code, or 0 in an empty dictionary).

A `Batch` is a row-aligned set of vectors whose columns are read at first touch: a filter or join that drops rows
before a column was touched saves the reading (lazy materialisation, Kudu paper section 4.8).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ..arrow_arrays import arrow_array, arrow_scalar, fill_nulls, numpy_array
from ..types import DataType, Kind, integer_bounds
from .arrow_values import Array as Array
from .arrow_values import TextCells as TextCells
from .arrow_values import decimal_from_limbs as decimal_from_limbs
from .arrow_values import decimal_limbs as decimal_limbs
from .arrow_values import decimal_scalar
from .arrow_values import intervals_from_arrow as intervals_from_arrow
from .arrow_values import physical_to_arrow as physical_to_arrow
from .merged_dictionaries import merged_for


# Not of `ABC`: `isinstance` distinguishes the forms in many places, and costs four times as much there.
class Vector:
    """A column of `len(self)` values of one type; see the module's page for the forms."""

    type: DataType
    validity: Array | None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, indices: Array) -> Vector:
        """The rows at `indices` (ndarray of intp, any order, repetitions allowed)."""

    @abstractmethod
    def slice(self, start: int, stop: int) -> Vector:
        """The rows `start` to `stop` (exclusive), as a view where the form allows."""

    @abstractmethod
    def values(self) -> Array:
        """Decoded physical values, shape (n_rows,): the type's dtype or a wider integer; under NULLs anything.

        Text gives an object array of str or bytes, wide decimals one of int: for small results and tests only.
        """

    @abstractmethod
    def to_arrow(self) -> pa.Array:
        """The values as an Arrow array of `self.type.arrow`."""

    def bounds(self) -> tuple[int, int] | None:
        """Integers (low, high) that enclose every present value, not always tightly; None where not integer-like."""
        return None

    def filter(self, mask: Array) -> Vector:
        """The rows where `mask` (bool, shape (n_rows,)) is True, in order."""
        return self.take(np.flatnonzero(mask))

    @property
    def has_nulls(self) -> bool:
        return self.validity is not None and not bool(self.validity.all())

    def __repr__(self) -> str:
        head = self.slice(0, min(len(self), 6)).to_arrow().to_pylist()
        return f"{type(self).__name__}({self.type}, {len(self)} rows: {head}{'...' if len(self) > 6 else ''})"


def _pick(validity: Array | None, rows: Any) -> Array | None:
    return None if validity is None else validity[rows]


def taken(values: Array, rows: Array) -> Array:
    """`values.take(rows)` for rows within bounds. In mode "clip", numpy needs no branch per row, which halves the time
    for values of four and eight bytes (131,072 of them: 0.11 ms instead of 0.21)."""
    return values.take(rows, mode="clip")


def _taken(validity: Array | None, rows: Array) -> Array | None:
    return None if validity is None else taken(validity, rows)


class Flat(Vector):
    """Physical values in a numpy array.

    Parameters
    ----------
    type : DataType
        Any type but STRING and BINARY.
    values : ndarray, shape (n_rows,)
        Of the type's dtype, or of any wider integer dtype (sums and products of decimals are int64).
    validity : ndarray of bool, shape (n_rows,), optional
    low, high : int, optional
        Proven bounds of the present values, where known (they let decimal arithmetic stay in int64).
    """

    __slots__ = ("_array", "high", "low", "type", "validity")

    def __init__(
        self,
        type: DataType,
        values: Array,
        validity: Array | None = None,
        low: int | None = None,
        high: int | None = None,
    ):
        self.type = type
        self._array = values
        self.validity = validity
        self.low = low
        self.high = high

    def __len__(self) -> int:
        return len(self._array)

    def take(self, indices: Array) -> Flat:
        return Flat(self.type, taken(self._array, indices), _taken(self.validity, indices), self.low, self.high)

    def slice(self, start: int, stop: int) -> Flat:
        rows = slice(start, stop)
        return Flat(self.type, self._array[rows], _pick(self.validity, rows), self.low, self.high)

    def values(self) -> Array:
        return self._array

    def bounds(self) -> tuple[int, int] | None:
        if self.low is not None and self.high is not None:
            return self.low, self.high
        if self._array.dtype == np.bool_:
            return 0, 1
        return integer_bounds(self._array.dtype)

    def to_arrow(self) -> pa.Array:
        return physical_to_arrow(self.type, self._array, self.validity)


class Narrow(Vector):
    """Integer-like values as narrow codes over a base: value = codes + base (FRAME_OF_REFERENCE).

    Parameters
    ----------
    type : DataType
        Integer-like: integers, BOOLEAN, DATE, TIMESTAMP, DECIMAL of at most 18 digits.
    codes : ndarray of uint8, uint16, uint32 or uint64, shape (n_rows,)
    base : int
        In the type's physical unit (days, microseconds, unscaled decimal).
    top : int, optional
        The largest code that occurs, where known.
    """

    __slots__ = ("base", "codes", "top", "type", "validity")

    def __init__(self, type: DataType, codes: Array, base: int, validity: Array | None = None, top: int | None = None):
        self.type = type
        self.codes = codes
        self.base = base
        self.validity = validity
        self.top = top

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, indices: Array) -> Narrow:
        return Narrow(self.type, taken(self.codes, indices), self.base, _taken(self.validity, indices), self.top)

    def slice(self, start: int, stop: int) -> Narrow:
        rows = slice(start, stop)
        return Narrow(self.type, self.codes[rows], self.base, _pick(self.validity, rows), self.top)

    def values(self) -> Array:
        dtype = self.type.dtype
        if dtype == np.bool_:
            return (self.codes + np.uint8(self.base)).astype(np.bool_)
        # Addition modulo 2**n is right for any base: the sum itself always fits the type.
        result = self.codes.astype(dtype)
        if self.base:
            result += np.array(self.base, dtype)
        return result

    def bounds(self) -> tuple[int, int]:
        top = int(np.iinfo(self.codes.dtype).max) if self.top is None else self.top
        return self.base, self.base + top

    def to_arrow(self) -> pa.Array:
        return physical_to_arrow(self.type, self.values(), self.validity)


class Dict(Vector):
    """Values as codes into a dictionary of distinct entries.

    Parameters
    ----------
    type : DataType
        STRING or BINARY.
    codes : ndarray of uint8, uint16, uint32 or int32, shape (n_rows,)
    dictionary : pa.Array
        The entries: distinct, none NULL. Compare dictionaries by identity to see whether two vectors share codes.
    ordered : bool
        True where the entries ascend (by their bytes), so that code order is value order.
    """

    __slots__ = ("codes", "dictionary", "ordered", "type", "validity")

    def __init__(
        self,
        type: DataType,
        codes: Array,
        dictionary: pa.Array,
        validity: Array | None = None,
        ordered: bool = True,
    ):
        self.type = type
        self.codes = codes
        self.dictionary = dictionary
        self.validity = validity
        self.ordered = ordered

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, indices: Array) -> Dict:
        return Dict(
            self.type, taken(self.codes, indices), self.dictionary, _taken(self.validity, indices), self.ordered
        )

    def slice(self, start: int, stop: int) -> Dict:
        rows = slice(start, stop)
        return Dict(self.type, self.codes[rows], self.dictionary, _pick(self.validity, rows), self.ordered)

    def values(self) -> Array:
        return Text(self.type, self.to_arrow()).values()

    def to_arrow(self) -> pa.Array:
        if len(self.dictionary) == 0:
            return pa.nulls(len(self), self.type.arrow)
        mask = None if self.validity is None else ~self.validity
        return self.dictionary.take(arrow_array(self.codes, mask=mask))


class Const(Vector):
    """One physical value (None for NULL) repeated `length` times."""

    __slots__ = ("_length", "type", "value")

    def __init__(self, type: DataType, value: Any, length: int):
        self.type = type
        self.value = value
        self._length = length

    @property
    def validity(self) -> Array | None:  # type: ignore[override]
        return np.zeros(self._length, np.bool_) if self.value is None else None

    @property
    def has_nulls(self) -> bool:
        return self.value is None and self._length > 0

    def __len__(self) -> int:
        return self._length

    def take(self, indices: Array) -> Const:
        return Const(self.type, self.value, len(indices))

    def slice(self, start: int, stop: int) -> Const:
        return Const(self.type, self.value, max(0, min(stop, self._length) - start))

    def filter(self, mask: Array) -> Const:
        return Const(self.type, self.value, int(np.count_nonzero(mask)))

    def values(self) -> Array:
        if self.type.is_text or self.type.kind is Kind.NULL:
            result = np.empty(self._length, object)
            result[:] = [self.value] * self._length
            return result
        low_high = self.bounds()
        if low_high is not None and not -(2**63) <= low_high[0] < 2**63:
            return np.full(self._length, self.value, object)
        dtype = np.dtype(np.int64) if self.type.is_decimal else self.type.dtype
        zero: Any = (0, 0, 0) if self.type.kind is Kind.INTERVAL else 0
        value = zero if self.value is None else self.value
        return np.full(self._length, np.array(tuple(value), dtype) if isinstance(value, tuple) else value, dtype)

    def bounds(self) -> tuple[int, int] | None:
        if not self.type.is_integer_like:
            return None
        value = 0 if self.value is None else int(self.value)
        return value, value

    def to_arrow(self) -> pa.Array:
        if self.value is None:
            return pa.nulls(self._length, self.type.arrow)
        if self.type.is_decimal:
            scalar = decimal_scalar(self.type, int(self.value))
        elif self.type.kind is Kind.INTERVAL:
            scalar = arrow_scalar((*self.value[:2], self.value[2] * 1000), self.type.arrow)
        else:
            scalar = arrow_scalar(self.type.to_python(self.value), self.type.arrow)
        return pa.repeat(scalar, self._length)


class _ArrowBacked(Vector):
    """Shared by the two forms that keep an Arrow array; its null bitmap is the validity."""

    def __init__(self, type: DataType, array: pa.Array):
        self.type = type
        self.array = array

    @cached_property
    def validity(self) -> Array | None:  # type: ignore[override]
        if self.array.null_count == 0:
            return None
        return numpy_array(self.array.is_valid())

    def __len__(self) -> int:
        return len(self.array)

    def take(self, indices: Array) -> Vector:
        return type(self)(self.type, self.array.take(arrow_array(indices)))

    def slice(self, start: int, stop: int) -> Vector:
        return type(self)(self.type, self.array.slice(start, max(0, stop - start)))

    def to_arrow(self) -> pa.Array:
        return self.array


class Text(_ArrowBacked):
    """STRING or BINARY values in an Arrow string or binary array."""

    @cached_property
    def cells(self) -> TextCells:
        """The values one by one."""
        return TextCells(self.array)

    def values(self) -> Array:
        result = np.empty(len(self.array), object)
        result[:] = self.array.to_pylist()
        return result


class Wide(_ArrowBacked):
    """DECIMAL values of up to 38 digits in an Arrow decimal128 array (of `type.arrow`)."""

    def values(self) -> Array:
        """Unscaled Python ints in an object array (0 under NULLs)."""
        high, low = decimal_limbs(self.array)
        unscaled: Array = (high.astype(object) << 64) | low.astype(object)
        return unscaled


def spread(vector: Vector) -> Vector:
    """A `Const` beyond 64 bits as a `Wide` of as many rows; other vectors unchanged."""
    if isinstance(vector, Const) and vector.type.is_decimal and not -(2**63) <= int(vector.value or 0) < 2**63:
        return Wide(vector.type, vector.to_arrow())
    return vector


def vector_from_arrow(type_: DataType, array: pa.Array | pa.ChunkedArray) -> Vector:
    """A vector of `type_` over an Arrow array; other Arrow types are cast (safely: `pa.ArrowInvalid` on loss).

    Arrow dictionaries of strings stay dictionaries. Decimals of at most 18 digits become `Flat` int64.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
        if isinstance(array, pa.ChunkedArray):  # an empty one stays chunked
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)
    if pa.types.is_dictionary(array.type):
        if type_.is_text and array.dictionary.null_count == 0:
            return _dict_from_arrow(type_, array)
        array = array.dictionary_decode()
    if array.type != type_.arrow:
        array = array.cast(type_.arrow)
    if type_.is_text:
        return Text(type_, array)
    validity = None if array.null_count == 0 else numpy_array(array.is_valid())
    if type_.is_decimal:
        if type_.precision is not None and type_.precision > 18:
            return Wide(type_, array)
        return Flat(type_, np.ascontiguousarray(decimal_limbs(array)[1].view(np.int64)), validity)
    if type_.kind is Kind.NULL:
        return Const(type_, None, len(array))
    if type_.kind is Kind.DATE:
        array = array.cast(pa.int32())
    elif type_.kind is Kind.TIMESTAMP:
        array = array.cast(pa.int64())
    elif type_.kind is Kind.INTERVAL:
        return Flat(type_, intervals_from_arrow(array), validity)
    if validity is not None:
        array = fill_nulls(array, False if type_.kind is Kind.BOOLEAN else 0)
    return Flat(type_, numpy_array(array), validity)


def _dict_from_arrow(type_: DataType, array: pa.DictionaryArray) -> Dict:
    validity = None if array.null_count == 0 else numpy_array(array.is_valid())
    codes = fill_nulls(array.indices, 0) if validity is not None else array.indices
    dictionary = array.dictionary.cast(type_.arrow)
    return Dict(type_, numpy_array(codes), dictionary, validity, ordered=False)


def concat(vectors: Sequence[Vector]) -> Vector:
    """One vector of the rows of all `vectors` (at least one, all of one type), as encoded as they allow."""
    if len(vectors) == 1:
        return vectors[0]
    type_ = vectors[0].type
    filled = [v for v in vectors if len(v)] or [vectors[0]]
    if len(filled) == 1:
        return filled[0]
    filled = [spread(v) for v in filled] if type_.is_decimal else filled
    if all(type(v) is Flat for v in filled):  # as most changed values are
        return _concat_values(filled)
    dicts = [v for v in filled if isinstance(v, Dict)]
    if len(dicts) == len(filled):
        return _concat_dicts(type_, dicts)
    if type_.is_text or any(isinstance(v, Wide) for v in filled):
        arrays = [v.to_arrow() for v in filled]
        return (Text if type_.is_text else Wide)(type_, pa.concat_arrays(arrays))
    constants = [v for v in filled if isinstance(v, Const)]
    if len(constants) == len(filled) and all(v.value == constants[0].value for v in constants):
        return Const(type_, constants[0].value, sum(map(len, filled)))
    narrow = [v for v in filled if isinstance(v, Narrow)]
    if len(narrow) == len(filled) and all(v.base == narrow[0].base for v in narrow):
        tops = [v.bounds()[1] - v.base for v in narrow]
        codes = np.concatenate([v.codes for v in narrow])
        return Narrow(type_, codes, narrow[0].base, concat_validity(filled), max(tops))
    return _concat_values(filled)


def _concat_values(vectors: Sequence[Vector]) -> Flat:
    low, high = _joint_bounds(vectors)
    return Flat(vectors[0].type, np.concatenate([v.values() for v in vectors]), concat_validity(vectors), low, high)


def _joint_bounds(vectors: Sequence[Vector]) -> tuple[int | None, int | None]:
    bounds = [v.bounds() for v in vectors]
    known = [b for b in bounds if b is not None]
    if len(known) < len(bounds):
        return None, None
    return min(b[0] for b in known), max(b[1] for b in known)


def _concat_dicts(type_: DataType, vectors: Sequence[Dict]) -> Vector:
    distinct = {id(v.dictionary): v.dictionary for v in vectors}
    validity = concat_validity(vectors)
    first, *others = dictionaries = list(distinct.values())
    if all(len(d) == len(first) and d.equals(first) for d in others):
        return Dict(type_, np.concatenate([v.codes for v in vectors]), first, validity, vectors[0].ordered)
    if sum(map(len, vectors)) < sum(map(len, dictionaries)):
        return Text(type_, pa.concat_arrays([v.to_arrow() for v in vectors]))
    merged, tables = merged_for(dictionaries, [[v.codes for v in vectors if v.dictionary is d] for d in dictionaries])
    table_of = dict(zip(distinct, tables, strict=True))
    return Dict(type_, np.concatenate([table_of[id(v.dictionary)].take(v.codes) for v in vectors]), merged, validity)


def concat_validity(vectors: Sequence[Vector]) -> Array | None:
    """The joined validity of several vectors, None where nothing is NULL."""
    parts = [v.validity for v in vectors]
    if all(p is None for p in parts):
        return None
    return np.concatenate([np.ones(len(v), np.bool_) if p is None else p for v, p in zip(vectors, parts, strict=True)])


Loader: TypeAlias = Callable[[Array | None], Vector]
"""Reads one column of a batch: all rows (None), or those at an ndarray of intp (any order, repetitions allowed)."""


class LazyColumn:
    """A column that is read at first access, for the rows that are still selected then."""

    __slots__ = ("_load", "_vector", "selection")

    def __init__(self, load: Loader, selection: Array | None = None):
        self._load = load
        self._vector: Vector | None = None
        self.selection = selection

    @property
    def loaded(self) -> bool:
        return self._vector is not None

    def get(self) -> Vector:
        if self._vector is None:
            self._vector = self._load(self.selection)
        return self._vector

    def select(self, rows: Array, composed: Array) -> LazyColumn:
        """This column at `rows` of the batch; `composed` is the same in terms of the loader's rows."""
        vector = self._vector
        if vector is None:
            return LazyColumn(self._load, composed)
        return LazyColumn(lambda chosen: vector if chosen is None else vector.take(chosen), rows)


class Batch:
    """`length` rows of several columns, each read at first touch.

    One thread works on a batch at a time. `select`, `project` and `append` return new batches that share columns.
    """

    __slots__ = ("_columns", "length")

    def __init__(self, columns: Iterable[Vector | LazyColumn], length: int):
        self._columns: list[Vector | LazyColumn] = list(columns)
        self.length = length

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self._columns)

    def column(self, index: int) -> Vector:
        """The vector of one column; reads it if it has not been read."""
        slot = self._columns[index]
        if isinstance(slot, LazyColumn):
            slot = self._columns[index] = slot.get()
        return slot

    def columns(self) -> list[Vector]:
        """All columns, read."""
        return [self.column(i) for i in range(len(self._columns))]

    def slots(self) -> list[Vector | LazyColumn]:
        """The columns in their current state, read or not: for building another batch over them."""
        return list(self._columns)

    def is_loaded(self, index: int) -> bool:
        """True if this column has been read. (For tests that prove that it was not.)"""
        slot = self._columns[index]
        return not isinstance(slot, LazyColumn) or slot.loaded

    def select(self, rows: Array) -> Batch:
        """The rows at `rows` (ndarray of intp, repetitions allowed) or where `rows` (ndarray of bool) is True."""
        if rows.dtype == np.bool_:
            rows = np.flatnonzero(rows)
        composed: dict[int, Array] = {}
        picked: list[Vector | LazyColumn] = []
        for slot in self._columns:
            if isinstance(slot, LazyColumn):
                # Columns of one scan share one selection array: compose it once for all of them.
                before = slot.selection
                if before is None:
                    picked.append(slot.select(rows, rows))
                else:
                    if id(before) not in composed:
                        composed[id(before)] = taken(before, rows)
                    picked.append(slot.select(rows, composed[id(before)]))
            else:
                picked.append(_deferred_take(slot, rows))
        return Batch(picked, len(rows))

    def slice(self, start: int, stop: int) -> Batch:
        """The rows `start` to `stop` (exclusive)."""
        stop = min(stop, self.length)
        if start == 0 and stop == self.length:
            return self
        return self.select(np.arange(start, stop))

    def project(self, indices: Sequence[int]) -> Batch:
        """The columns at `indices`, in that order."""
        return Batch([self._columns[i] for i in indices], self.length)

    def append(self, columns: Iterable[Vector | LazyColumn]) -> Batch:
        """This batch with further columns behind its own."""
        return Batch([*self._columns, *columns], self.length)

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as Python values, as Arrow's `to_pylist` gives them: for few rows."""
        if not self._columns:
            return [()] * self.length
        return list(zip(*[column.to_arrow().to_pylist() for column in self.columns()]))

    def to_arrow(self, names: Sequence[str]) -> pa.RecordBatch:
        """The whole batch as an Arrow record batch with these column names (which may repeat)."""
        arrays = [vector.to_arrow() for vector in self.columns()]
        if not arrays:
            return pa.record_batch([pa.nulls(self.length)], names=["_rows"])
        fields = [pa.field(n, a.type) for n, a in zip(names, arrays, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _deferred_take(vector: Vector, rows: Array) -> LazyColumn:
    return LazyColumn(lambda chosen: vector if chosen is None else vector.take(chosen), rows)
