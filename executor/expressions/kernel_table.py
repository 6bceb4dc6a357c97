"""The kernel of each scalar function and operator, by the canonical names of `sql.functions.OPERATIONS`.

Each entry takes the call's result type and its arguments as vectors of one length. `and` and `or` are not here: the
evaluator implements them, so that it can stop early.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from ...model.types import DataType, Kind
from ...model.vectors.vector import Const, Vector
from ...sql.functions.dates import PARTS
from ..kernels import boolean, cast, compare, conditional, frame_limits
from ..kernels.numbers import arithmetic, mathematics, number_reading, number_writing
from ..kernels.texts import (
    catalog_texts,
    edit_distance,
    regex,
    text_characters,
    text_digests,
    text_encodings,
    text_per_value,
    text_pieces,
    text_quoting,
    text_slices,
    text_vectorized,
)
from ..kernels.times import calendar, date_reading, date_writing, temporal

Kernel: TypeAlias = Callable[..., Vector]
"""(result type, *argument vectors) -> vector."""


def _operator(name: str) -> Kernel:
    sign = -1 if name == "sub" else 1

    def kernel(type_: DataType, left: Vector, right: Vector) -> Vector:
        if type_.kind in (Kind.DATE, Kind.TIMESTAMP):
            if left.type.kind is Kind.INTERVAL or (left.type.is_integer and right.type.kind is Kind.DATE):
                left, right = right, left
            return temporal.shift(type_, left, right, sign)
        return arithmetic.operate(name, type_, left, right)

    return kernel


def _comparison(name: str) -> Kernel:
    return lambda _, left, right: compare.compare(name, left, right)


def _whole(mode: str) -> Kernel:
    return lambda type_, arg: arithmetic.whole(type_, arg, mode)


def _round(type_: DataType, arg: Vector, digits: Vector) -> Vector:
    return arithmetic.round_to(type_, arg, digits)


def _date_trunc(type_: DataType, unit: Vector, arg: Vector) -> Vector:
    assert isinstance(unit, Const)
    if type_.kind is Kind.INTERVAL:
        return calendar.truncate_interval(type_, unit.value, arg)
    if unit.value in ("decade", "century", "millennium"):
        return calendar.truncate_years(type_, unit.value, arg)
    return temporal.truncate(type_, unit.value, arg)


def _hash_bucket(type_: DataType, *arguments: Vector) -> Vector:
    from ..kernels.hash_buckets import hash_bucket  # few statements need it

    return hash_bucket(type_, *arguments)


def _trim(name: str) -> Kernel:
    return lambda type_, value, *characters: text_vectorized.trim(name, type_, value, *characters)


def _text_of_one(name: str) -> Kernel:
    return lambda type_, value: text_vectorized.of_one(name, type_, value)


_MODULES: Final[tuple[Any, ...]] = (
    calendar,
    catalog_texts,
    date_reading,
    date_writing,
    edit_distance,
    frame_limits,
    mathematics,
    number_reading,
    number_writing,
    regex,
    text_characters,
    text_digests,
    text_encodings,
    text_per_value,
    text_pieces,
    text_quoting,
)
"""Modules with their own table of kernels. `sql.functions.fallible` lists the functions that may fail for a row."""

KERNELS: Final[Mapping[str, Kernel]] = {
    **{name: _operator(name) for name in ("add", "sub", "mul")},
    "div": arithmetic.divide,
    "mod": arithmetic.modulo,
    "neg": arithmetic.negate,
    **{name: _comparison(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "saturated": cast.saturated,
    "is_distinct": lambda _, left, right: compare.is_distinct(left, right),
    "not": lambda _, arg: boolean.negation(arg),
    "is_null": lambda _, arg: boolean.is_null(arg),
    "is_true": lambda _, arg: boolean.is_truth(arg, True),
    "is_false": lambda _, arg: boolean.is_truth(arg, False),
    "like": lambda _, value, pattern: text_vectorized.like(value, pattern),
    "ilike": lambda _, value, pattern: text_vectorized.like(value, pattern, ignore_case=True),
    "concat": text_vectorized.concat,
    **{name: calendar.date_part(name) for name in PARTS},
    "date_trunc": _date_trunc,
    **{name: _text_of_one(name) for name in ("upper", "lower", "reverse", "length", "octet_length")},
    **{name: _trim(name) for name in ("trim", "ltrim", "rtrim")},
    "replace": text_vectorized.replace,
    "strpos": text_vectorized.strpos,
    "starts_with": text_vectorized.starts_with,
    "substring": text_slices.substring,
    "left": text_slices.left,
    "right": text_slices.right,
    "repeat": text_slices.repeat,
    "abs": arithmetic.absolute,
    "sign": arithmetic.sign,
    "floor": _whole("floor"),
    "ceil": _whole("ceil"),
    "round": _round,
    "power": arithmetic.power,
    "hash_bucket": _hash_bucket,
    "coalesce": lambda type_, *values: conditional.coalesce(type_, values),
    "greatest": lambda type_, *values: conditional.extreme(type_, values, greatest=True),
    "least": lambda type_, *values: conditional.extreme(type_, values, greatest=False),
    **{name: kernel for module in _MODULES for name, kernel in module.KERNELS.items()},
}

GENERATORS: Final[Mapping[str, Callable[[int], Vector]]] = {
    "random": mathematics.random,
    "gen_random_uuid": text_per_value.uuids,
}
"""Functions without arguments that have a different value in each row, by the number of rows."""
