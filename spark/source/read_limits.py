"""PySpark's classes for the size limit of a stream's batch: PySpark has them from 4.2 on, and here they exist for 4.1
too.

With 4.1 a stream's batch has all changes so far, and a query that ends with the current data (`availableNow`) reads it
in one batch.
"""

from __future__ import annotations

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:
    from dataclasses import dataclass

    class ReadLimit:  # type: ignore[no-redef]
        """Base class of the limits of a batch."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """No limit."""

    @dataclass
    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """At most `max_rows` rows."""

        max_rows: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Marks sources that determine their own end."""

    HAS_LIMITS = False
else:
    HAS_LIMITS = True

__all__ = ["HAS_LIMITS", "ReadAllAvailable", "ReadLimit", "ReadMaxRows", "SupportsTriggerAvailableNow"]
