"""Formats numbers in tables, charts and targets: three significant digits, thousands separated."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from .model import Cell, Target

NOTHING = "–"
"""The text for a missing number."""


def shown(cell: Cell) -> str:
    """A cell as text.

    >>> [shown(value) for value in (1234567, 1234.5, 12.345, 0.012345, 0.0, None, "fsync")]
    ['1,234,567', '1,234', '12.3', '0.0123', '0', '–', 'fsync']
    """
    if cell is None:
        return NOTHING
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    if not math.isfinite(cell):
        return NOTHING
    if cell == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(cell))))
    written = f"{cell:,.{min(digits, 6)}f}"
    return written.rstrip("0").rstrip(".") if abs(cell) < 0.1 else written


def times(count: int) -> str:
    """The number of repetitions, in words.

    >>> times(1), times(5)
    ('once', '5 times')
    """
    return "once" if count == 1 else f"{count} times"


def ratio(ours: float | None, theirs: float | None) -> float | None:
    """`ours` over `theirs`; None if one of them is missing or nothing was measured."""
    return ours / theirs if ours is not None and theirs else None


def median(numbers: Iterable[float]) -> float | None:
    """The median; None if there are no numbers."""
    kept = list(numbers)
    return statistics.median(kept) if kept else None


def geometric_mean(numbers: Sequence[float]) -> float | None:
    """The geometric mean; None if there are no numbers."""
    return statistics.geometric_mean(numbers) if numbers else None


def at_most(what: str, required: float, found: float | None, unit: str = "") -> Target:
    """A target with an upper limit; one that was not measured is neither met nor missed.

    >>> at_most("Q6", 0.5, 0.1234, "x")
    Target(what='Q6', required='at most 0.5x', found='0.123x', is_met=True, is_measured=True)
    """
    told = _found(found, unit, required)
    is_met = found is not None and found <= required
    return Target(what, f"at most {required:,g}{_unit(unit)}", told, is_met, found is not None)


def at_least(what: str, required: float, found: float | None, unit: str = "") -> Target:
    """A target with a lower limit; one that was not measured is neither met nor missed.

    >>> at_least("insert", 8000, 7999.6, "rows")
    Target(what='insert', required='at least 8,000 rows', found='7,999.6 rows', is_met=False, is_measured=True)
    """
    told = _found(found, unit, required)
    is_met = found is not None and found >= required
    return Target(what, f"at least {required:,g}{_unit(unit)}", told, is_met, found is not None)


def _found(number: float | None, unit: str, limit: float) -> str:
    if number is None:
        return "not measured"
    written = shown(number)
    if number != limit and written == shown(float(limit)):
        written = f"{number:,}"  # rounded, it would look like the limit itself
    return written + _unit(unit)


def _unit(unit: str) -> str:
    return unit if unit in ("", "x") else f" {unit}"
