"""Scans of a transaction's tokens: of the store, of altered tables, and of tables with own rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...model.store import ScanBatches, ScanCounters, ScanToken, Store
from ...model.vectors.vector import Batch
from .altered_source import altered_source
from .merged_scan import MergedBatches, base_token, merged_part


def scan_token(store: Store, token: ScanToken, counters: ScanCounters | None) -> Iterator[Batch]:
    """`Store.scan` for a token of a transaction over `store`."""
    if merged_part(token) is None and altered_source(token) is None:
        return store.scan(token, counters)
    (batches,) = scan_tokens_together(store, [token], [counters or ScanCounters()])
    return iter(batches)


def scan_tokens_together(
    store: Store, tokens: Sequence[ScanToken], counters: Sequence[ScanCounters]
) -> list[ScanBatches]:
    """`Store.scan_all` for tokens of a transaction over `store`, whose own tokens are read together."""
    theirs = [base_token(token) if merged_part(token) is not None else token for token in tokens]
    pairs = [(token, mine) for token, mine in zip(theirs, counters, strict=True) if token is not None]
    plain = [(token, mine) for token, mine in pairs if altered_source(token) is None]
    read = iter(store.scan_all([token for token, _ in plain], [mine for _, mine in plain]))
    found: list[ScanBatches] = []
    for token, base, mine in zip(tokens, theirs, counters):
        batches: ScanBatches | None = None
        if base is not None:
            source = altered_source(base)
            batches = next(read) if source is None else source.scan_all([base], [mine])[0]
        if merged_part(token) is not None:
            found.append(MergedBatches(token, batches, mine))
        else:
            assert batches is not None
            found.append(batches)
    return found
