"""A wall clock whose jumps ahead are not believed at once: history is forgotten by it.

What a wall clock shows after a jump ahead may be the truth (the machine was suspended, the store was closed for months)
or an error that is corrected soon. Data do not suffer from an error: timestamps ascend whatever happens. But history
that is collected because a clock said for a minute that it is two months later does not come back. So time goes on here
as the monotonic clock does, from the newest write that the store has at its opening, never above the wall clock; and
becomes the wall clock's after that has gone evenly for `patience` seconds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from .clock import format_timestamp, make_timestamp, wall_microseconds

PATIENCE_SECONDS = 24 * 3600.0
JUMP_SECONDS = 10
"""More than clocks are set by in an orderly way (Kudu's bound between machines)."""
_SLEW = 0.01
"""Greatest relative speed error of a clock that is being adjusted."""
_log = logging.getLogger(__name__)


class SteadyClock:
    """Safe for several threads.

    Parameters
    ----------
    known : int
        Microseconds since 1970 UTC of the newest write; 0 for none, as in a new store.
    patience : float
        Seconds for which the wall clock must go evenly before it is believed.
    wall : callable
        Microseconds since 1970 UTC; may jump.
    ticks : callable
        Seconds since any moment; never jumps.

    Examples
    --------
    >>> wall, ticks = [1_000_000], [0.0]
    >>> clock = SteadyClock(0, 60.0, lambda: wall[0], lambda: ticks[0])
    >>> wall[0], ticks[0] = 9_000_000_000, 5.0
    >>> clock.now()
    6000000
    """

    def __init__(
        self,
        known: int,
        patience: float = PATIENCE_SECONDS,
        wall: Callable[[], int] = wall_microseconds,
        ticks: Callable[[], float] = time.monotonic,
    ):
        self._patience = patience
        self._read_wall = wall
        self._read_ticks = ticks
        self._lock = threading.Lock()
        self._wall, self._ticks = wall(), ticks()
        self._time = min(known, self._wall) if known else self._wall
        self._even_since = self._ticks

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        with self._lock:
            wall, ticks = self._read_wall(), self._read_ticks()
            passed = ticks - self._ticks
            jump = (wall - self._wall) / 1e6 - passed
            if jump > JUMP_SECONDS + _SLEW * passed:
                self._even_since = ticks
                _log.warning(
                    "the wall clock has jumped ahead by %.0f seconds, to %s; history expires by the previous time "
                    "until the clock has run evenly for %.0f seconds",
                    jump,
                    format_timestamp(make_timestamp(wall)),
                    self._patience,
                )
            self._time = min(wall, self._time + int(passed * 1e6))
            if ticks - self._even_since >= self._patience:
                self._time = wall
            self._wall, self._ticks = wall, ticks
            return self._time
