"""Conditional kernels: pick values row by row for CASE, COALESCE, GREATEST, LEAST.

`pick` is the one primitive: row i of the result is a row of one of several vectors. Numbers of 64 bits use `np.where`;
everything else is concatenated (constants as a single row) and gathered, which keeps dictionaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...model.types import DataType
from ...model.vectors.vector import Array, Const, Flat, Text, Vector, Wide, concat, spread
from .boolean import truths
from .compare import compare
from .numbers.bounded_integers import from_values, known_bounds, objects, unchecked


def pick(type_: DataType, choice: Array, candidates: Sequence[Vector]) -> Vector:
    """Return row i of `candidates[choice[i]]` for each i.

    Parameters
    ----------
    choice : ndarray of integers, shape (n_rows,)
    candidates : sequence of Vector, each of n_rows
    """
    if len(candidates) == 1:
        return candidates[0]
    if len(candidates) == 2 and _is_plain(type_, candidates):
        return _pick_plain(type_, choice.astype(np.bool_), candidates[1], candidates[0])
    if any(isinstance(c, Wide) for c in candidates):
        return _pick_wide(type_, choice, candidates)
    pieces: list[Vector] = []
    offsets = np.zeros(len(candidates), np.intp)
    steps = np.zeros(len(candidates), np.intp)
    total = 0
    for index, candidate in enumerate(candidates):
        offsets[index], steps[index] = total, 0 if isinstance(candidate, Const) else 1
        pieces.append(_piece(type_, candidate))
        total += len(pieces[-1])
    rows = offsets.take(choice) + steps.take(choice) * np.arange(len(choice))
    return concat(pieces).take(rows)


def _piece(type_: DataType, vector: Vector) -> Vector:
    """Return the vector under the result's type, a constant as one row in a form that can be concatenated."""
    if isinstance(vector, Const):
        one = Const(type_, vector.value, 1)
        if type_.is_text:
            return Text(type_, one.to_arrow())
        plain = spread(one)
        return plain if plain is not one else Flat(type_, one.values(), one.validity, *(one.bounds() or (None, None)))
    return vector


def _is_plain(type_: DataType, candidates: Sequence[Vector]) -> bool:
    if not (type_.is_integer_like or type_.is_float):
        return False
    for candidate in candidates:
        if isinstance(candidate, Wide) or (isinstance(candidate, Const) and candidate.value is None):
            return False
        bounds = known_bounds(candidate)
        if type_.is_integer_like and (bounds is None or not -(2**63) <= bounds[0] <= bounds[1] < 2**63):
            return False
    return True


def _pick_plain(type_: DataType, mask: Array, yes: Vector, no: Vector) -> Vector:
    first = yes.value if isinstance(yes, Const) else yes.values()
    second = no.value if isinstance(no, Const) else no.values()
    values = np.where(mask, first, second)
    validity = None
    if yes.validity is not None or no.validity is not None:
        present_yes = True if yes.validity is None else yes.validity
        present_no = True if no.validity is None else no.validity
        validity = np.where(mask, present_yes, present_no)
    if type_.is_float:
        return Flat(type_, values.astype(type_.dtype, copy=False), validity)
    a, b = known_bounds(yes), known_bounds(no)
    assert a is not None and b is not None
    return Flat(type_, values, validity, min(a[0], b[0]), max(a[1], b[1]))


def _pick_wide(type_: DataType, choice: Array, candidates: Sequence[Vector]) -> Vector:
    values = np.choose(choice, [objects(c) for c in candidates])
    present = [np.ones(len(c), np.bool_) if c.validity is None else c.validity for c in candidates]
    return unchecked(type_, values, np.choose(choice, present))


def from_physical(type_: DataType, values: Sequence[Any]) -> Vector:
    """Make a vector of a few physical values, None for NULL."""
    if len({*values}) == 1:
        return Const(type_, values[0], len(values))
    if type_.is_text:
        return Text(type_, pa.array(values, type_.arrow))
    return from_values(type_, values)


def coalesce(type_: DataType, candidates: Sequence[Vector]) -> Vector:
    """Return the first value that is not NULL."""
    length = len(candidates[0])
    choice = np.full(length, len(candidates) - 1, np.intp)
    open_rows = np.ones(length, np.bool_)
    for index, candidate in enumerate(candidates):
        validity = candidate.validity
        choice[open_rows if validity is None else open_rows & validity] = index
        if validity is None:
            return pick(type_, choice, candidates[: index + 1])
        open_rows &= ~validity
    return pick(type_, choice, candidates)


def extreme(type_: DataType, candidates: Sequence[Vector], greatest: bool) -> Vector:
    """GREATEST or LEAST: NULLs are skipped."""
    best = candidates[0]
    for candidate in candidates[1:]:
        better = truths(compare("gt" if greatest else "lt", candidate, best))
        take_new = np.array(np.broadcast_to(better, (len(best),)))
        if best.validity is not None:
            take_new |= ~best.validity
        if candidate.validity is not None:
            take_new &= candidate.validity
        best = pick(type_, take_new.astype(np.intp), [best, candidate])
    return best
