"""The tasks of a read: plain data for each, in which everything is named by permanent ids.

A tablet's part of a scan is a scan token (`driver.tables.scan_tokens`), which outlives the process that made it. If
fewer tasks are requested than there are tokens, a task reads several, with the rows divided as evenly as possible. If
more are requested, tablets are split into key ranges.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from ...driver.connection import Connection
from ...driver.tables.scan_tokens import ScanToken, scan_tokens
from ...model.lazy_dataclass import dataclass
from ...model.schema import Table
from ...model.store import ScanSpec, Timestamp
from .relation import Relation, TabletScan


@dataclass(frozen=True, slots=True)
class TokensPart:
    """Scan tokens as bytes, and the fragment that is executed on their rows."""

    tokens: tuple[bytes, ...]
    fragment: bytes = b""


@dataclass(frozen=True, slots=True)
class ChangesPart:
    """The changes of the rows of one tablet."""

    table: Table
    spec: ScanSpec


@dataclass(frozen=True, slots=True)
class QueryPart:
    """A query, executed by nyala as of a time."""

    text: str
    snapshot: Timestamp


Part: TypeAlias = TokensPart | ChangesPart | QueryPart


def make_parts(
    connection: Connection, relation: Relation, snapshot: Timestamp, most: int | None = None, size: int | None = None
) -> list[Part]:
    """The parts of a relation, all as of one time; none if no tablet can have rows for it.

    Parameters
    ----------
    most : int, optional
        Approximate maximum number of parts; tablets are split until it is reached.
    size : int, optional
        Approximate maximum number of bytes on disk of a part of a tablet.
    """
    scan = relation.scan
    if scan is None:
        return [QueryPart(relation.text, snapshot)]
    if scan.changes is not None:
        return list(_changes(connection, scan))
    return list(_tokens(connection, scan, snapshot if scan.until is None else scan.until, most, size))


def _changes(connection: Connection, scan: TabletScan) -> list[ChangesPart]:
    spec = ScanSpec(scan.names, scan.predicates, scan.until, changes=scan.changes, fragment=scan.fragment)
    tokens = connection.store.scan_tokens(scan.table, spec)
    return [ChangesPart(scan.table, replace(spec, tablet=token.tablet_id)) for token in tokens]


def _tokens(
    connection: Connection, scan: TabletScan, snapshot: Timestamp, most: int | None, size: int | None
) -> list[TokensPart]:
    def cut(size: int | None) -> list[ScanToken]:
        given = scan.table, scan.names, scan.predicates, snapshot
        return scan_tokens(connection.store, *given, split_size_bytes=size)

    tokens = cut(size)
    if most is not None and len(tokens) < most:
        bytes_ = sum(token.estimated_bytes for token in tokens)
        tokens = cut(max(1, min(size or bytes_, bytes_ // most)))
    return [
        TokensPart(tuple(token.serialize() for token in share), scan.fragment)
        for share in shared_out(tokens, most or len(tokens))
    ]


def shared_out(tokens: Sequence[ScanToken], most: int) -> list[list[ScanToken]]:
    """The tokens in at most `most` groups with about the same number of rows, none of them empty."""
    shares: list[list[ScanToken]] = [[] for _ in range(min(most, len(tokens)))]
    rows = [(0, number) for number in range(len(shares))]
    for token in sorted(tokens, key=lambda token: -token.estimated_rows):
        held, number = heapq.heappop(rows)
        shares[number].append(token)
        heapq.heappush(rows, (held + token.estimated_rows + 1, number))
    return shares
