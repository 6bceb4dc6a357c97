"""Build rows that decide a semi-join or anti-join on equal keys and one value that differs: `k = k AND v <> v`.

If a key has a row with another value than the probe row's, then one of any two of its rows with different values is
such a row. Two rows per key are enough, however many there are.
"""

from __future__ import annotations

import numpy as np

from ...errors import DataError
from ...model.vectors.vector import Array, Batch
from ...sql.expressions import Call, columns_of
from ..aggregation.group_codes import run_starts, sort_rows
from ..expressions.evaluate import Compiler
from .join_keys import KeyCoder
from .join_shape import JoinShape

_FEWEST = 4
"""Build rows per possible key from which sorting them costs less than checking them."""
_MOST = 1 << 62


def two_per_key(shape: JoinShape, build: Batch, codes: Array, size: int) -> Array:
    """Return the codes of the build rows' keys, -1 for rows that need not be checked.

    Parameters
    ----------
    shape : JoinShape
        Of a semi-join or anti-join with a further condition.
    codes : ndarray of int64, shape (build.length,)
        Of the keys; -1 for rows without a key.
    size : int
        Exclusive upper bound of the codes.
    """
    condition = shape.residual
    if not isinstance(condition, Call) or condition.function != "ne" or build.length < _FEWEST:
        return codes
    build_ids = frozenset(column.id for column in shape.build)
    sides = sorted(condition.args, key=lambda arg: bool(columns_of(arg) & build_ids))
    probe_reads, build_reads = (columns_of(side) for side in sides)
    if probe_reads & build_ids or not build_reads or not build_reads <= build_ids:
        return codes
    type_ = sides[1].type
    if sides[0].type != type_ or not (type_.is_text or type_.is_float or type_.is_integer_like):
        return codes
    try:
        value = Compiler(shape.build).compile(sides[1])(build)
    except DataError:
        return codes  # of a row that no probe row may meet
    coder, values = KeyCoder.learn([value])
    rows = np.flatnonzero((codes >= 0) & (values >= 0))
    if size * coder.size > _MOST or not len(rows):
        return codes
    order, ordered = sort_rows(codes.take(rows) * coder.size + values.take(rows), size * coder.size)
    starts = run_starts(ordered // coder.size)
    if len(rows) < _FEWEST * len(starts):
        return codes
    kept = rows.take(order.take(np.concatenate((starts, np.append(starts[1:], len(rows)) - 1))))
    result = np.full(len(codes), -1, np.int64)
    result[kept] = codes[kept]
    return result
