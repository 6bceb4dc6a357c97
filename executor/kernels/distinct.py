"""Functions of Python values, called once for each distinct combination of arguments.

Used if neither numpy nor Arrow has a kernel. The rows are grouped by their arguments, the function is called for one
row of each group, and the results are gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import arrow_array
from ...model.types import DataType
from ...model.vectors.vector import Const, Text, Vector
from .groups.segments import segments
from .numbers.bounded_integers import from_values

_ROWS_OF_A_COMBINATION = 64
"""A kernel costs 30 to 170 microseconds however few the rows are, a call for one row 1 to 2."""


def per_distinct(function: Callable[..., Any], type_: DataType, args: Sequence[Vector], strict: bool = True) -> Vector:
    """Return `function(*args)` row by row, as a vector.

    Parameters
    ----------
    function : takes Python values (Decimal, date, datetime, str, bytes, ...) and returns one, None for NULL strict : if
    an argument is NULL, return NULL without calling it
    """
    length = len(args[0])
    if length == 0:
        return _vector(type_, [])
    groups = segments(args, length)
    rows = groups.representatives
    columns = [python_values(arg.take(rows)) for arg in args]
    answers = [None if strict and None in row else function(*row) for row in zip(*columns)]
    if len(answers) == 1:
        return Const(type_, type_.to_physical(answers[0]), length)
    return _vector(type_, answers).take(groups.group_of_row())


def per_combination(
    kernel: Callable[..., Vector],
    type_: DataType,
    values: Sequence[Vector],
    options: Sequence[Vector],
    single: Callable[..., Any] | None = None,
) -> Vector:
    """Apply a kernel of vectors and constants, once for each distinct combination of the constants.

    Parameters
    ----------
    kernel : takes the result type (a text's), vectors and Python values, and returns a vector with a row for each
    values : the vectors; NULL in one of them makes NULL, by the kernel
    options : the constants; the result is NULL where one of them is NULL
    single : computes one row from Python values, in the same order; called instead if combinations have few rows
    """
    rows = len(values[0])
    if all(isinstance(option, Const) for option in options):
        constants = [option.value for option in options if isinstance(option, Const)]
        return Const(type_, None, rows) if None in constants else kernel(type_, *values, *constants)
    if not rows:
        return Text(type_, arrow_array([], type_.arrow))
    groups = segments(options, rows)
    if single is not None and len(groups) * _ROWS_OF_A_COMBINATION > rows:
        return per_distinct(single, type_, (*values, *options))
    order = np.arange(rows) if groups.order is None else groups.order
    columns = [python_values(option.take(groups.representatives)) for option in options]
    pieces = []
    for combination, places in zip(zip(*columns, strict=True), np.split(order, groups.starts[1:]), strict=True):
        if None in combination:
            pieces.append(pa.nulls(len(places), type_.arrow))
        else:
            pieces.append(kernel(type_, *(value.take(places) for value in values), *combination).to_arrow())
    back = np.empty(rows, np.intp)
    back[order] = np.arange(rows)
    return Text(type_, pa.concat_arrays(pieces).take(arrow_array(back)))


def python_values(vector: Vector) -> list[Any]:
    """Convert to values as users see them, None for NULL; for small vectors."""
    if isinstance(vector, Const):
        return [vector.type.to_python(vector.value)] * len(vector)
    found: list[Any] = vector.to_arrow().to_pylist()
    return found


def _vector(type_: DataType, answers: list[Any]) -> Vector:
    if type_.is_text:
        return Text(type_, arrow_array(answers, type_.arrow))
    return from_values(type_, [type_.to_physical(answer) for answer in answers])


def as_kernel(function: Callable[..., Any], strict: bool = True) -> Callable[..., Vector]:
    """Make a kernel (result type, then vectors) of a function of Python values."""
    return lambda type_, *args: per_distinct(function, type_, args, strict)
