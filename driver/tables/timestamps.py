"""Points in time as callers give them, in hybrid time: what FOR SYSTEM_TIME takes in SQL."""

from __future__ import annotations

import datetime
from typing import TypeAlias

from ...errors import DataError, InterfaceError
from ...model.clock import format_timestamp, make_timestamp, split_timestamp
from ...model.store import Timestamp
from ...model.types import TIMESTAMP

Moment: TypeAlias = datetime.datetime | datetime.date | int | str
"""A datetime (UTC where it has no time zone), a text that spells one, or a hybrid timestamp, which is exact."""
_LAST_LOGICAL = 4095


def hybrid_time(moment: Moment, now: Timestamp) -> Timestamp:
    """Hybrid timestamp of a datetime or text: the end of its microsecond, so that all writes within it are visible.
    Raises `InterfaceError` for an unsupported value, `InvalidText` for an invalid text, `DataError` for a time in the
    future."""
    if isinstance(moment, bool) or not isinstance(moment, datetime.date | int | str):
        raise InterfaceError(
            f"{moment!r} is not a point in time: pass a datetime, a text of one, or a hybrid timestamp"
        )
    if isinstance(moment, int):
        time = Timestamp(moment)
    else:
        microseconds = TIMESTAMP.to_physical(moment)
        if microseconds == split_timestamp(now)[0]:
            return now  # the microsecond has not ended yet
        time = make_timestamp(microseconds, _LAST_LOGICAL)
    if time > now:
        raise DataError(f"{moment} is in the future: it is only {format_timestamp(now)}")
    return Timestamp(max(0, time))
