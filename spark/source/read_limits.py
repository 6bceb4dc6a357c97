"""How much a batch of a stream may have, in PySpark's words: they came with 4.2, and here they are for 4.1 too.

Under 4.1 a stream's batch is all that has happened, and a query that is to end with what there is (`availableNow`)
reads it in one batch.
"""

from __future__ import annotations

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:
    from dataclasses import dataclass

    class ReadLimit:  # type: ignore[no-redef]
        """Of a batch."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """No limit."""

    @dataclass
    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """So many rows at most."""

        max_rows: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Marks sources that end at a time of their own."""

    HAS_LIMITS = False
else:
    HAS_LIMITS = True

__all__ = ["HAS_LIMITS", "ReadAllAvailable", "ReadLimit", "ReadMaxRows", "SupportsTriggerAvailableNow"]
