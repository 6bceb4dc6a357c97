"""Work on a scan's rows that is done where they are: partial aggregation, for instance.

    tablet ─► batches ─► evaluator ─► other, mostly far fewer, batches ─► the stream

`ScanTablet.fragment` says what is to be done, in bytes that only the layer above can read. It hands a `Fragments` to
the server, which asks it once per scan for an evaluator. The server calls the evaluator once per source of the scan
(`scans.scan_sources`), and all of these calls come before the first of their results is read: each call has a part of
the rows, the parts are disjoint and together all rows of the scan in this tablet, and what comes out of them is sent in
any order. So a fragment must be one whose results over parts can be joined by whoever sent it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from ....model.schema import Table
from ....model.store import ScanSpec
from ....model.vectors.vector import Batch

Evaluator: TypeAlias = Callable[[Iterator[Batch]], Iterator[Batch]]
"""From batches with the spec's columns to any others. It is called, and what it returns is read, by one thread at a
time, not always the same; it reads what it is given to the end or until it needs no more. Several may run at once."""


class Fragments(Protocol):
    """Reads fragments."""

    def __call__(self, fragment: bytes, table: Table, spec: ScanSpec) -> Evaluator:
        """The evaluator of a scan of a tablet of `table`, as that is now; called once per scan. `ProtocolError` where
        the bytes are no fragment, or one of another version of nyala."""
