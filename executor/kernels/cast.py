"""CAST: conversions between types, with PostgreSQL's results.

Exact numbers round half away from zero, floats half to even. A value that does not fit raises `NumericOutOfRange`, a
text that is not a value raises `InvalidText`; under TRY_CAST (`safe`) both are NULL. Arrow parses texts whose grammar
is the same, and `plain_casts` handles plain values of whole columns. Others are converted individually (each distinct
one once), which also finds the text for the error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import DataError, InvalidText, NotSupportedError, NumericOutOfRange
from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_array, fill_nulls, numpy_array
from ...model.types import BOOLEAN, FIRST_DAY, LAST_DAY, DataType, Interval, Kind, bytes_of, trimmed
from ...model.vectors.vector import Array, Const, Dict, Flat, Narrow, Text, Vector, Wide, concat, vector_from_arrow
from ...sql import interval_text
from .numbers.arithmetic import cut, rescale
from .numbers.bounded_integers import (
    INT64,
    fits,
    floats,
    from_objects,
    from_values,
    integers,
    known_bounds,
    limits_of,
    measured_bounds,
    objects,
    result,
    scale_of,
    unchecked,
)
from .plain_casts import decimals_of_floats, parsed_texts, texts_of
from .times.temporal import DAY

_Converter = Callable[[DataType, Vector, bool], Vector]


def cast(type_: DataType, arg: Vector, safe: bool = False) -> Vector:
    """`CAST(arg AS type_)`."""
    source = arg.type
    if source == type_:
        return arg
    if isinstance(arg, Const):
        if arg.value is None:
            return Const(type_, None, len(arg))
        if len(arg) != 1:
            one = cast(type_, Const(source, arg.value, 1), safe)
            return Const(type_, _only(one), len(arg))
    if source.is_text:
        return _from_text(type_, arg, safe)
    if type_.is_text:
        return _to_text(type_, arg)
    converter = _converter(source, type_)
    if converter is None:
        raise NotSupportedError(f"a value of type {source} cannot be cast to {type_}")
    return converter(type_, arg, safe)


def _only(vector: Vector) -> Any:
    """Return the physical value of a vector of one row."""
    if vector.has_nulls:
        return None
    value = vector.values()[0]
    return value.item() if isinstance(value, np.generic) else value


def _converter(source: DataType, target: DataType) -> _Converter | None:
    if source.is_numeric and target.is_numeric:
        if target.is_float:
            return _to_float
        return _from_float if source.is_float else _to_exact
    pair = (source.kind, target.kind)
    if pair == (Kind.DATE, Kind.TIMESTAMP):
        return lambda type_, arg, _: result(type_, integers(arg) * DAY, arg.validity, INT64, len(arg))
    if pair == (Kind.TIMESTAMP, Kind.DATE):
        return lambda type_, arg, _: result(type_, integers(arg) // DAY, arg.validity, INT64, len(arg))
    if source.kind is Kind.BOOLEAN and target.is_integer:
        return lambda type_, arg, _: Flat(type_, arg.values().astype(type_.dtype), arg.validity, 0, 1)
    if source.is_integer and target.kind is Kind.BOOLEAN:
        return lambda type_, arg, _: Flat(type_, arg.values() != 0, arg.validity)
    if source.kind is target.kind and not source.is_decimal:
        return lambda type_, arg, _: arg
    return None


# ---- numbers -------------------------------------------------------------------------------------------------------


def _to_float(type_: DataType, arg: Vector, safe: bool) -> Vector:
    with np.errstate(all="ignore"):
        values = np.broadcast_to(np.asarray(floats(arg)), (len(arg),))
        converted = values.astype(type_.dtype)
    lost = np.isinf(converted) & np.isfinite(values)
    return _checked(type_, converted, arg.validity, lost, values, safe)


def _checked(type_: DataType, values: Array, validity: Array | None, lost: Array, shown: Array, safe: bool) -> Vector:
    """Return the values; rows in `lost` are NULL under `safe`, else an error shows the first."""
    if validity is not None:
        lost = lost & validity
    if lost.any():
        if not safe:
            raise NumericOutOfRange(f"{shown[np.argmax(lost)]} is out of range for {type_}")
        validity = ~lost if validity is None else validity & ~lost
    return Flat(type_, values, validity)


def _from_float(type_: DataType, arg: Vector, safe: bool) -> Vector:
    """Convert floats: half to even for integers; a DECIMAL takes the digits that the float prints as."""
    values = np.broadcast_to(np.asarray(floats(arg)), (len(arg),))
    if type_.is_decimal:
        units, is_certain = decimals_of_floats(type_, values)
        return _completed(type_, units, is_certain, arg.validity, lambda rows: _printed(type_, values[rows], safe))
    low, high = limits_of(type_)
    with np.errstate(invalid="ignore"):
        rounded = np.rint(values)
        # float(high) rounds 2**63 - 1 up, so the upper bound must be exclusive.
        inside = (rounded >= float(low)) & (rounded < float(high) + 1.0)
        whole = np.where(inside, rounded, 0).astype(np.int64).astype(type_.dtype)
    return _checked(type_, whole, arg.validity, ~inside, values, safe)


def _printed(type_: DataType, values: Array, safe: bool) -> Vector:
    """Convert floats to DECIMAL by the digits that they print as."""
    distinct, codes = np.unique(values, return_inverse=True)
    return _parsed(type_, list(map(repr, distinct.tolist())), safe).take(codes)


def _completed(
    type_: DataType,
    values: Array,
    is_certain: Array | None,
    validity: Array | None,
    convert: Callable[[Array], Vector],
) -> Vector:
    """Return physical values, with those of the present rows that are not certain (ndarray of intp) converted
    otherwise."""
    plain = Flat(type_, values, validity)
    if is_certain is None:
        return plain
    rows = np.flatnonzero(~is_certain if validity is None else ~is_certain & validity)
    if not len(rows):
        return plain
    places = np.arange(len(values))
    places[rows] = len(values) + np.arange(len(rows))
    return concat([plain, convert(rows)]).take(places)


def _to_exact(type_: DataType, arg: Vector, safe: bool) -> Vector:
    """Convert integers and decimals to integers and decimals."""
    try:
        return _exact(type_, arg)
    except NumericOutOfRange:
        if not safe:
            raise
    unit = 10 ** abs(scale_of(arg.type) - scale_of(type_))
    low, high = limits_of(type_)
    values = objects(arg)
    if scale_of(type_) >= scale_of(arg.type):
        inside = (values * unit >= low) & (values * unit <= high)
    else:
        size = (np.abs(values) + unit // 2) // unit
        inside = size <= high
    inside = inside.astype(np.bool_)
    validity = inside if arg.validity is None else inside & arg.validity
    return _exact(type_, from_objects(arg.type, values, validity))


def _exact(type_: DataType, arg: Vector) -> Vector:
    digits = scale_of(arg.type) - scale_of(type_)
    if digits > 0:
        return cut(type_, arg, digits, "round")
    if digits < 0:
        return rescale(type_, arg, scale_of(type_))
    if isinstance(arg, Wide):
        return from_objects(type_, objects(arg), arg.validity)
    limits = limits_of(type_)
    bounds = known_bounds(arg) or INT64
    if isinstance(arg, Narrow) and fits(bounds, limits) and _holds(type_, arg):
        return Narrow(type_, arg.codes, arg.base, arg.validity, arg.top)
    if not fits(bounds, limits):
        bounds = measured_bounds(arg)
    values = integers(arg)
    converted = result(type_, values, arg.validity, bounds, len(arg))
    if type_.is_decimal or not isinstance(converted, Flat):
        return converted
    narrow = np.where(arg.validity, values, 0) if arg.validity is not None else values
    return Flat(type_, narrow.astype(type_.dtype), arg.validity, bounds[0], bounds[1])


def _holds(type_: DataType, arg: Narrow) -> bool:
    """True if codes can be decoded under the type (they are in at most 64 bits)."""
    return not type_.is_decimal or (type_.precision or 0) <= 18


def saturated(type_: DataType, arg: Vector) -> Vector:
    """Convert exact numbers to a DECIMAL of at least their scale.

    Values that the type does not hold become plus or minus 10**precision units. This keeps the order relative to all
    values of the type, and fits 128 bits.
    """
    if not isinstance(arg, Const):
        try:
            return _exact(type_, arg)
        except NumericOutOfRange:
            pass
    most = 1 + limits_of(type_)[1]
    values = np.clip(objects(arg) * 10 ** (scale_of(type_) - scale_of(arg.type)), -most, most)
    if isinstance(arg, Const):
        return Const(type_, None if arg.value is None or not len(arg) else int(values[0]), len(arg))
    return unchecked(type_, values, arg.validity)


# ---- to text -------------------------------------------------------------------------------------------------------


def _to_text(type_: DataType, arg: Vector) -> Vector:
    if arg.type.kind is Kind.NULL:
        return Const(type_, None, len(arg))
    if arg.type.kind is Kind.INTERVAL:
        return _cut_text(type_, _spelt_intervals(type_, arg))
    if arg.type.kind is Kind.BOOLEAN and type_.length is None:
        return Dict(type_, arg.values().astype(np.uint8), _truth_words(type_), arg.validity)
    if arg.type.is_integer and type_.kind is Kind.STRING:
        return _cut_text(type_, Text(type_, pc.cast(arg.to_arrow(), pa.string())))
    array = arg.to_arrow()
    texts, is_plain = texts_of(arg.type, array) or (None, None)
    if texts is None:
        texts = _spelt(arg.type, array)
    elif is_plain is not None:
        others = arrow_array(~is_plain)
        texts = pc.replace_with_mask(texts, others, _spelt(arg.type, array.filter(others)))
    return _cut_text(type_, Text(type_, texts.cast(type_.arrow)))


@cache
def _truth_words(type_: DataType) -> pa.Array:
    """The texts of false and true: one dictionary for all batches."""
    return pa.array([spelt_value(BOOLEAN, value) for value in (False, True)], pa.string()).cast(type_.arrow)


def _spelt(type_: DataType, array: pa.Array) -> pa.Array:
    """Format each distinct value once."""
    encoded = pc.dictionary_encode(array)
    return arrow_array([spelt_value(type_, v) for v in encoded.dictionary.to_pylist()], pa.string()).take(
        encoded.indices
    )


def _spelt_intervals(type_: DataType, arg: Vector) -> Vector:
    distinct, codes = np.unique(arg.values(), return_inverse=True)
    spelt = arrow_array([str(Interval(*value)) for value in distinct.tolist()], type_.arrow)
    mask = None if arg.validity is None else ~arg.validity
    return Text(type_, spelt.take(arrow_array(codes.ravel(), pa.int64(), mask=mask)))


def spelt_value(type_: DataType, value: Any) -> str:
    """Return the text of a Python value that is not NULL."""
    if type_.kind is Kind.BOOLEAN:
        return "true" if value else "false"
    if type_.is_decimal:
        return format(value, "f")
    if type_.kind is Kind.TIMESTAMP:
        text: str = value.isoformat(" ")
        return text.rstrip("0") if "." in text else text
    if type_.is_float:
        text = repr(float(value)) if type_.kind is Kind.DOUBLE else str(np.float32(value))
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(text, text.removesuffix(".0"))
    return str(value)


def _cut_text(type_: DataType, text: Vector) -> Vector:
    """Truncate texts, as an explicit cast to VARCHAR(n) does."""
    if type_.length is None or type_.kind is not Kind.STRING:
        return text
    return Text(type_, pc.utf8_slice_codeunits(text.to_arrow(), 0, type_.length))


# ---- from text -----------------------------------------------------------------------------------------------------


def _from_text(type_: DataType, arg: Vector, safe: bool) -> Vector:
    if type_.is_text:
        if type_.kind is arg.type.kind:
            return _cut_text(type_, arg) if type_.length is not None else _renamed(type_, arg)
        return _between_text_and_bytes(type_, arg, safe)
    texts = arg.to_arrow()
    parsed = _parsed_by_arrow(type_, texts)
    if parsed is not None:
        return parsed
    plain = parsed_texts(type_, texts)
    if plain is not None:
        rest = lambda rows: _parsed_individually(type_, texts.take(arrow_array(rows)), safe)  # noqa: E731
        return _completed(type_, *plain, arg.validity, rest)
    return _parsed_individually(type_, texts, safe)


def _parsed_individually(type_: DataType, texts: pa.Array, safe: bool) -> Vector:
    """Parse each distinct text once."""
    validity = numpy_array(texts.is_valid()) if texts.null_count else None
    encoded = pc.dictionary_encode(texts)
    distinct = _parsed(type_, encoded.dictionary.to_pylist(), safe)
    codes = encoded.indices
    rows = numpy_array(fill_nulls(codes, 0))
    if len(distinct) == 0:
        dtype = type_.dtype if type_.kind is Kind.INTERVAL else np.int64
        return Flat(type_, np.zeros(len(texts), dtype), np.zeros(len(texts), np.bool_))
    taken = distinct.take(rows)
    if codes.null_count == 0:
        return taken
    if taken.validity is not None:
        validity = taken.validity if validity is None else taken.validity & validity
    if isinstance(taken, Wide):
        return from_objects(type_, taken.values(), validity)
    return Flat(type_, taken.values(), validity)


def _renamed(type_: DataType, arg: Vector) -> Vector:
    if isinstance(arg, Dict):
        return Dict(type_, arg.codes, arg.dictionary, arg.validity, arg.ordered)
    return Text(type_, arg.to_arrow()) if not isinstance(arg, Const) else Const(type_, arg.value, len(arg))


def _between_text_and_bytes(type_: DataType, arg: Vector, safe: bool) -> Vector:
    texts = arg.to_arrow()
    if type_.kind is Kind.BINARY and pc.any(pc.match_substring(texts, "\\")).as_py():
        return _spelt_bytes(type_, texts, safe)
    try:
        return _cut_text(type_, Text(type_, texts.cast(type_.arrow)))
    except pa.ArrowInvalid:
        if not safe:
            raise InvalidText("the bytes are not valid UTF-8") from None
    values = [None if v is None else _decoded(v) for v in texts.to_pylist()]
    return _cut_text(type_, Text(type_, arrow_array(values, type_.arrow)))


def _spelt_bytes(type_: DataType, texts: pa.Array, safe: bool) -> Vector:
    """Parse each distinct text once with `bytes_of`."""
    encoded = pc.dictionary_encode(texts)
    values: list[bytes | None] = []
    for text in encoded.dictionary.to_pylist():
        try:
            values.append(bytes_of(text))
        except InvalidText:
            if not safe:
                raise
            values.append(None)
    return Text(type_, arrow_array(values, type_.arrow).take(encoded.indices))


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _parsed_by_arrow(type_: DataType, texts: pa.Array) -> Vector | None:
    """Parse the plainest spelling of integers and dates with Arrow.

    None if Arrow refuses a text, or accepts one that is not a value here: 0x1F, the year 0.
    """
    if not (type_.is_integer or type_.kind is Kind.DATE):
        return None
    try:
        array = pc.cast(pc.ascii_trim_whitespace(texts), type_.arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if type_.is_integer:
        is_plain = not pc.any(pc.match_substring(texts, "x", ignore_case=True)).as_py()
    else:
        low, high = pc.min_max(array.cast(pa.int32())).values()
        is_plain = not low.is_valid or FIRST_DAY <= low.as_py() <= high.as_py() <= LAST_DAY
    return vector_from_arrow(type_, array) if is_plain else None


def _parsed(type_: DataType, texts: list[Any], safe: bool) -> Vector:
    """Parse texts one by one, by the type's own rules."""
    values: list[Any] = []
    for text in texts:
        try:
            values.append(None if text is None else _parse(type_, text))
        except DataError:
            if not safe:
                raise
            values.append(None)
    return from_values(type_, values)


def _parse(type_: DataType, text: Any) -> Any:
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    plain = trimmed(text)
    if type_.kind is Kind.INTERVAL:
        return interval_text.read(plain)
    if type_.is_numeric and ("_" in plain or not plain.isascii()):
        raise InvalidText(f"{text!r} is not a value of type {type_}")
    return type_.to_physical(plain)
