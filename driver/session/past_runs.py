"""Which executions of a statement measure the time of each operator, as EXPLAIN ANALYZE does.

    planned just now                     measured: planning took far longer than that
    prepared, slow the last time         measured
    prepared, fast the last time         one of `SAMPLED` is measured

Measuring costs about 5 us for each operator, and 1 us for each batch; describing the operators at the end some 100 us.
So fast executions that were just planned are not described.
"""

from __future__ import annotations

from typing import Final

KEPT_SECONDS: Final = 0.02
"""Executions that took as long are described."""
SAMPLED: Final = 128
"""One of so many fast executions of a prepared statement is measured, and described."""


class PastRuns:
    """What a prepared statement keeps from one execution to the next.

    Attributes
    ----------
    serial_runs : dict of int to int
        The executor's: see `ExecutionContext.serial_runs`.
    runs : int
        Executions so far.
    seconds : float
        Duration of the last one that has ended.
    """

    __slots__ = ("runs", "seconds", "serial_runs")

    def __init__(self) -> None:
        self.serial_runs: dict[int, int] = {}
        self.runs = 0
        self.seconds = 0.0

    def begin(self) -> bool:
        """An execution begins; True if it is to be measured."""
        number = self.runs
        self.runs = number + 1
        return not number % SAMPLED or self.seconds >= KEPT_SECONDS

    def end(self, seconds: float) -> bool:
        """An execution has ended, which was measured; True if its operators are to be described."""
        self.seconds = seconds
        return seconds >= KEPT_SECONDS or self.runs > 1
