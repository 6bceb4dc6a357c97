"""One row at a time: what `incoming_rows` does for batches, for a mapping of names to Python values.

    {"k": 7, "price": Decimal("1.5"), "day": date(1970, 1, 3)}
        physical   7   150               2            keys are made of these, and the log holds them
        stored     7   Decimal("1.50")   same date    MemRowSet and DeltaMemStore hold these: what Arrow gives back

A `RowCodec` is made once per version of a table; per row there is one loop over the columns given, one call for each.
Values are taken as they are or refused, never rounded or parsed: a driver converts, this is storage.

| column | Python values |
|---|---|
| TINYINT to BIGINT | int (not bool), numpy integers |
| DECIMAL | Decimal, int; no more digits after the point than the scale |
| FLOAT, DOUBLE | float, int, numpy numbers |
| BOOLEAN | bool |
| DATE | date (not datetime) |
| TIMESTAMP | datetime; one with a time zone is brought to UTC |
| STRING | str |
| BINARY | bytes, bytearray, memoryview |
"""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

from ...errors import InvalidText, NumericOutOfRange, TextTooLong, TypeMismatch, UnknownColumn, did_you_mean
from ...model.keys.key_codec import KeyCodec
from ...model.keys.key_encoding import key_width
from ...model.lazy_dataclass import dataclass
from ...model.schema import ColumnSchema, Table
from ...model.types import EPOCH_DATE, EPOCH_TIMESTAMP, INTEGER_WIDTHS, DataType, Kind

Taker: TypeAlias = Callable[[Any], tuple[Any, Any]]
"""A Python value that is not None as (physical value, stored value); raises where the column cannot hold it."""


LONG_TEXT = 1000
"""Characters; a key with more in one column may pass the limit of keys."""
_WIDE_BYTES = 16
_KNOWN_DECIMALS = 4096
"""Values of a column that are remembered: prices, rates and quantities come again, and a look-up takes a fifth of the
time."""
_STORED_OTHERWISE = frozenset((Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.INTERVAL))
"""Kinds whose stored values are not their physical values."""
_PROJECTIONS = 1000
"""Lists of names that are remembered."""


class _Missing:
    """Stands where a row gives a column no value: None is NULL."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()


@dataclass(frozen=True, slots=True)
class CodedColumn:
    """Properties of a column for the codec."""

    schema: ColumnSchema
    place: int
    take: Taker
    default_physical: Any
    default_stored: Any


Converted: TypeAlias = tuple[tuple[int, CodedColumn], ...]
"""Places in a projection, with their columns."""


class RowCodec:
    """Converts the rows of one table; see the module's page. Immutable."""

    def __init__(self, table: Table):
        self.table = table
        schema = table.schema
        self.columns = tuple(
            CodedColumn(c, place, _MAKERS[c.type.kind](table, c), c.default, c.type.to_python(c.default))
            for place, c in enumerate(schema.columns)
        )
        self.key_columns = schema.key_columns
        self.key_places = tuple(range(schema.key_columns))
        self.number = schema.key_columns - 1 if schema.key[-1].auto_increment else None
        """Position of the AUTO_INCREMENT column."""
        self.not_null = tuple(c.place for c in self.columns if not c.schema.nullable and c.place != self.number)
        """Positions of NOT NULL columns, except those that the store numbers; likewise below."""
        self.texts = tuple(c.place for c in self.columns if c.schema.type.is_text)
        self.wide = tuple(
            c.place for c in self.columns if c.schema.type.is_decimal and key_width(c.schema.type) == _WIDE_BYTES
        )
        self.key = KeyCodec(tuple(c.type for c in schema.key))
        self.ids = tuple(c.id for c in schema.columns)
        self.long_texts = tuple(p for p in self.texts if (schema.columns[p].type.length or LONG_TEXT + 1) > LONG_TEXT)
        """Positions of texts that may have more than `LONG_TEXT` characters."""
        self._width = len(schema.columns)
        # A getter of one name gives no tuple.
        self._all_of: Callable[[Mapping[str, Any]], tuple[Any, ...]] = (
            operator.itemgetter(*schema.names) if self._width > 1 else lambda row: (row[schema.names[0]],)
        )
        self.nothing = [MISSING] * len(self.columns)
        """A row that gives no column a value; not to be changed."""
        self._projections: dict[tuple[str, ...], tuple[ColumnSchema, ...]] = {}
        self._converted: dict[tuple[str, ...], Converted] = {}
        self._takers: dict[str, tuple[int, Any, Any, Any, Taker]] = {
            c.schema.name: (c.place, *_plain(c.schema), c.take) for c in self.columns
        }
        self._all_takers = tuple(self._takers.values())
        key_types = [c.schema.type for c in self.columns[: self.key_columns]]
        is_converted = any(type_.kind in _STORED_OTHERWISE for type_ in key_types)
        self._key_types = tuple(key_types) if is_converted else ()
        """Of the key, if physical values differ from Python values."""
        self._key_takers = tuple((exact, low, high, take) for _, exact, low, high, take in self._all_takers)[
            : self.key_columns
        ]

    def take(self, row: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        """A row as (physical values, stored values), in the schema's order, `MISSING` where the row says nothing.

        Raises `UnknownColumn`, `TypeMismatch`, `NumericOutOfRange`, `TextTooLong` or `InvalidText`; NULLs pass.
        """
        if len(row) == self._width:
            return self._take_whole(row)
        physical, stored = self.nothing.copy(), self.nothing.copy()
        takers = self._takers
        for name, value in row.items():
            try:
                place, exact, low, high, take = takers[name]
            except KeyError:
                raise self.unknown(name) from None
            if value is None:
                physical[place] = stored[place] = None
            elif type(value) is exact and (
                low <= value <= high if exact is int else len(value) <= high and value.isascii()
            ):
                # Most values are plain integers and short texts: no call for those.
                physical[place] = stored[place] = value
            else:
                physical[place], stored[place] = take(value)
        return physical, stored

    def _take_whole(self, row: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        """`take` for a row that gives all columns: brought into order in one go, most values are in place already."""
        try:
            physical = list(self._all_of(row))
        except KeyError:
            raise self.unknown(next(name for name in row if name not in self._takers)) from None
        stored = physical.copy()
        for place, exact, low, high, take in self._all_takers:
            value = physical[place]
            if type(value) is exact:
                if low <= value <= high if exact is int else len(value) <= high and value.isascii():
                    continue
            elif value is None:
                continue
            physical[place], stored[place] = take(value)
        return physical, stored

    def take_physical(self, row: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        """`take` for physical values, as they come from elsewhere: they are held against the columns' types, too."""
        physical, stored = self.nothing.copy(), self.nothing.copy()
        for name, value in row.items():
            column = self.columns[self.place(name)]
            if value is None:
                physical[column.place] = stored[column.place] = None
                continue
            try:
                physical[column.place], stored[column.place] = column.take(_python(column.schema.type, value))
            except (TypeError, ValueError, OverflowError, ArithmeticError):
                raise mismatch(self.table, column.schema, value) from None
        return physical, stored

    def physical_key(self, values: Sequence[Any]) -> list[Any]:
        """`take_key` for physical values, as they come from elsewhere."""
        key = self._key_types
        try:
            if not key or len(values) != len(key):
                return self.take_key(values)
            return self.take_key([_python(type_, value) for type_, value in zip(key, values)])
        except (TypeError, ValueError, OverflowError, ArithmeticError):
            raise TypeMismatch(f"{values!r} is no key of table {self.table.name} in physical values") from None

    def converted(self, names: tuple[str, ...]) -> Converted:
        """The columns among these whose stored values are not their physical ones; raises as `projection`."""
        found = self._converted.get(names)
        if found is None:
            columns = [self.columns[self.place(name)] for name in names]
            found = tuple([(n, c) for n, c in enumerate(columns) if c.schema.type.kind in _STORED_OTHERWISE])
            if len(self._converted) < _PROJECTIONS:
                self._converted[names] = found
        return found

    def physical(self, names: tuple[str, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The physical values of stored ones, of the columns with these names."""
        converted = self.converted(names)
        if not converted:
            return values
        found = list(values)
        for place, column in converted:
            if found[place] is not None:
                found[place] = column.take(found[place])[0]
        return tuple(found)

    def python(self, names: tuple[str, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The Python values of physical ones, of the columns with these names."""
        converted = self.converted(names)
        if not converted:
            return values
        found = list(values)
        for place, column in converted:
            found[place] = column.schema.type.to_python(found[place])
        return tuple(found)

    def take_key(self, values: Sequence[Any]) -> list[Any]:
        """A primary key of Python values as physical ones; raises as `take`."""
        if len(values) != self.key_columns:
            names = ", ".join(c.name for c in self.table.schema.key)
            raise TypeMismatch(f"the key of table {self.table.name} is ({names}); {len(values)} values are given")
        found = list(values)
        for place, (exact, low, high, take) in enumerate(self._key_takers):
            value = found[place]
            if exact is int and type(value) is int and low <= value <= high:
                continue
            if value is None:
                raise mismatch(self.table, self.columns[place].schema, value)
            found[place] = take(value)[0]
        return found

    def place(self, name: str) -> int:
        """Position of a column; `UnknownColumn`."""
        if name not in self._takers:
            raise self.unknown(name)
        return self._takers[name][0]

    def projection(self, names: tuple[str, ...]) -> tuple[ColumnSchema, ...]:
        """Columns by name; `UnknownColumn`."""
        cached = self._projections.get(names)
        if cached is None:
            cached = tuple(self.columns[self.place(name)].schema for name in names)
            if len(self._projections) < _PROJECTIONS:
                self._projections[names] = cached
        return cached

    def unknown(self, name: str) -> UnknownColumn:
        """The error of a name that no column has."""
        hint = did_you_mean(name, self.table.schema.names, f"table {self.table.name} has")
        return UnknownColumn(f"column {name} does not exist in table {self.table.name}{hint}")


# ---- the types ---------------------------------------------------------------------------------------------------


def mismatch(table: Table, column: ColumnSchema, value: Any) -> TypeMismatch:
    """The error of a value of the wrong sort."""
    return TypeMismatch(
        f"column {column.name} of table {table.name} is {column.type}; the row has {value!r}, a {type(value).__name__}"
    )


def _python(type_: DataType, physical: Any) -> Any:
    """Python value, for `take`, of a physical value that may be invalid; `TypeError`, `ValueError` or `ArithmeticError`
    if it is."""
    if type_.kind in (Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP):
        return type_.to_python(operator.index(physical))
    return physical


def _out_of_range(table: Table, column: ColumnSchema, value: Any) -> NumericOutOfRange:
    return NumericOutOfRange(f"{value} is out of range for column {column.name} of table {table.name}, {column.type}")


def _plain(column: ColumnSchema) -> tuple[type | None, int, int]:
    """The type of which values are taken as they are, and the bounds of integers (of the length of texts)."""
    if column.type.is_integer:
        half = 1 << (8 * INTEGER_WIDTHS[column.type.kind] - 1)
        return int, -half, half - 1
    if column.type.kind is Kind.STRING:
        return str, 0, column.type.length if column.type.length is not None else 1 << 62
    return None, 0, 0


def _integers(table: Table, column: ColumnSchema) -> Taker:
    half = 1 << (8 * INTEGER_WIDTHS[column.type.kind] - 1)
    low, high = -half, half - 1

    def take(value: Any) -> tuple[Any, Any]:
        if type(value) is not int:
            if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
                raise mismatch(table, column, value)
            value = operator.index(value)
        if not low <= value <= high:
            raise _out_of_range(table, column, value)
        return value, value

    return take


def _decimals(table: Table, column: ColumnSchema) -> Taker:
    type_ = column.type
    assert type_.precision is not None and type_.scale is not None
    factor, limit, unit = 10**type_.scale, 10**type_.precision, Decimal(1).scaleb(-type_.scale)
    to_python = type_.to_python
    known: dict[Decimal, tuple[int, Decimal]] = {}

    def take(value: Any) -> tuple[Any, Any]:
        if type(value) is Decimal:
            found = known.get(value) if value.is_finite() else None
            if found is not None:
                return found
        else:
            if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
                raise mismatch(table, column, value)
            value = Decimal(operator.index(value))
        try:
            numerator, denominator = value.as_integer_ratio()
        except (ValueError, OverflowError):  # NaN, infinity
            raise _out_of_range(table, column, value) from None
        unscaled, rest = divmod(numerator * factor, denominator)
        if rest:
            raise NumericOutOfRange(
                f"{value} has too many digits after the point for column {column.name} of table {table.name}, {type_}"
            )
        if not -limit < unscaled < limit:
            raise _out_of_range(table, column, value)
        taken = unscaled, value if value.same_quantum(unit) else to_python(unscaled)
        if unscaled and len(known) < _KNOWN_DECIMALS:  # zeros differ in their sign
            known[value] = taken
        return taken

    return take


def _floats(table: Table, column: ColumnSchema) -> Taker:
    is_single = column.type.kind is Kind.FLOAT

    def take(value: Any) -> tuple[Any, Any]:
        if type(value) is not float:
            if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
                raise mismatch(table, column, value)
            try:
                value = float(value)
            except OverflowError:
                raise _out_of_range(table, column, value) from None
        if is_single:
            with np.errstate(over="ignore"):
                value = float(np.float32(value))
        return value, value

    return take


def _booleans(table: Table, column: ColumnSchema) -> Taker:
    def take(value: Any) -> tuple[Any, Any]:
        if not isinstance(value, (bool, np.bool_)):
            raise mismatch(table, column, value)
        value = bool(value)
        return value, value

    return take


def _dates(table: Table, column: ColumnSchema) -> Taker:
    epoch = EPOCH_DATE.toordinal()

    def take(value: Any) -> tuple[Any, Any]:
        if not isinstance(value, datetime.date) or isinstance(value, datetime.datetime):
            raise mismatch(table, column, value)
        return value.toordinal() - epoch, value

    return take


def _timestamps(table: Table, column: ColumnSchema) -> Taker:
    day, second = 86_400_000_000, 1_000_000

    def take(value: Any) -> tuple[Any, Any]:
        if not isinstance(value, datetime.datetime):
            raise mismatch(table, column, value)
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        since = value - EPOCH_TIMESTAMP
        return since.days * day + since.seconds * second + since.microseconds, value

    return take


def _texts(table: Table, column: ColumnSchema) -> Taker:
    limit = column.type.length

    def take(value: Any) -> tuple[Any, Any]:
        if type(value) is not str:
            if not isinstance(value, str):
                raise mismatch(table, column, value)
            value = str.__str__(value)  # a subclass may spell itself otherwise
        if limit is not None and len(value) > limit:
            raise TextTooLong(
                f"a text of {len(value)} characters is too long for column {column.name} of table {table.name}, "
                f"{column.type}"
            )
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise InvalidText(
                    f"{value!r} for column {column.name} of table {table.name} is no text: UTF-8 cannot spell it"
                ) from None
        return value, value

    return take


def _bytes(table: Table, column: ColumnSchema) -> Taker:
    def take(value: Any) -> tuple[Any, Any]:
        if type(value) is not bytes:
            if not isinstance(value, (bytes, bytearray, memoryview)):
                raise mismatch(table, column, value)
            value = bytes(value)
        return value, value

    return take


_MAKERS: dict[Kind, Callable[[Table, ColumnSchema], Taker]] = {
    **dict.fromkeys(INTEGER_WIDTHS, _integers),
    Kind.DECIMAL: _decimals,
    Kind.FLOAT: _floats,
    Kind.DOUBLE: _floats,
    Kind.BOOLEAN: _booleans,
    Kind.DATE: _dates,
    Kind.TIMESTAMP: _timestamps,
    Kind.STRING: _texts,
    Kind.BINARY: _bytes,
}
