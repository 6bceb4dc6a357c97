"""Functions of Python values, called once for each distinct combination of arguments.

Used if neither numpy nor Arrow has a kernel. The rows are grouped by their arguments, the function is called for one
row of each group, and the results are gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from ...model.types import DataType
from ...model.vectors.vector import Const, Text, Vector
from ..aggregation.group_codes import segments
from .numbers.bounded_integers import from_values


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


def python_values(vector: Vector) -> list[Any]:
    """Convert to values as users see them, None for NULL; for small vectors."""
    if isinstance(vector, Const):
        return [vector.type.to_python(vector.value)] * len(vector)
    found: list[Any] = vector.to_arrow().to_pylist()
    return found


def _vector(type_: DataType, answers: list[Any]) -> Vector:
    if type_.is_text:
        return Text(type_, pa.array(answers, type_.arrow))
    return from_values(type_, [type_.to_physical(answer) for answer in answers])


def as_kernel(function: Callable[..., Any], strict: bool = True) -> Callable[..., Vector]:
    """Make a kernel (result type, then vectors) of a function of Python values."""
    return lambda type_, *args: per_distinct(function, type_, args, strict)
