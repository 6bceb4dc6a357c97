"""Plan fragments that run on a scan's rows at the server: partial aggregation, for instance.

tablet ─► batches ─► evaluator ─► other, mostly far fewer, batches ─► the stream

`ScanTablet.fragment` has the fragment in bytes that only the layer above can decode. That layer passes a `Fragments` to
the server, which calls it once per scan for an evaluator. The server calls the evaluator once per source of the scan
(`scans.scan_sources`), and all of these calls come before the first of their results is read. Each call has a part of
the rows: the parts are disjoint, and together they are all rows of the scan in this tablet. The results are sent in any
order. So the sender of a fragment must be able to merge results over parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from ....model.schema import Table
from ....model.store import ScanSpec
from ....model.vectors.vector import Batch

Evaluator: TypeAlias = Callable[[Iterator[Batch]], Iterator[Batch]]
"""Maps batches with the spec's columns to any others. One thread at a time, not always the same one, calls it and reads
its results. It reads its input to the end, or until it needs no more. Several may run at once."""


class Fragments(Protocol):
    """Decoder of fragments."""

    def __call__(self, fragment: bytes, table: Table, spec: ScanSpec) -> Evaluator:
        """Returns the evaluator of a scan of a tablet of `table` in its current version; called once per scan. Raises
        `ProtocolError` if the bytes are no fragment, or one of another version of nyala."""
