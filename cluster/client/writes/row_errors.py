"""Errors of rows that a tablet refused, in the form of the embedded store: numbers of the caller's batch, classes of
`errors`."""

from __future__ import annotations

from collections.abc import Sequence

from .... import errors
from ....model.store import RowError
from ....model.vectors.vector import Array
from ...wire.messages.methods import WrittenRow


def row_errors(refused: Sequence[WrittenRow], numbers: Array) -> list[RowError]:
    """Returns the errors of a piece; `numbers` are its rows' in the whole batch."""
    return [RowError(int(numbers[row.row]), _error(row, int(numbers[row.row]))) for row in refused]


def _error(row: WrittenRow, number: int) -> errors.IntegrityError:
    known = getattr(errors, row.error, errors.IntegrityError)
    message = row.message
    if known is errors.NotNullViolation:
        # The only message of a tablet with a row number, which counts the rows that the tablet received.
        message = message.replace(f"row {row.row + 1} leaves it out", f"row {number + 1} leaves it out")
    if not (isinstance(known, type) and issubclass(known, errors.IntegrityError)):
        known = errors.IntegrityError
    return known(message)
