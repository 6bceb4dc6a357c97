"""Queries that several readers share: a scan of one table, cut into parts of some tablets each, at one snapshot.

    GetFlightInfo ─ QueryParts.of ─► a PartTicket for each endpoint        nothing runs yet
    DoGet, of any session of the user ─ open_part ─► the same query, on a store that shows the tablets of the part alone

A part is planned again by its reader, with the reader's rights: so it has all that a statement has, its record and its
limits, and a right that was revoked meanwhile is missing. What depends on the time of execution, such as `now()`, would
be another value in each part, so such a query has one endpoint. Its first condition costs a statement about other
tables next to nothing: the text must contain the name of a table that has several tablets, or of a view.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, cast

import pyarrow as pa

from ....driver.session.engines import LOCAL
from ....driver.session.executions import Execution, Halt
from ....driver.session.identity import set_role
from ....driver.session.session import Session
from ....driver.session.transactions import Kind, kind_of
from ....errors import Error
from ....executor.fragments.fragment import scan_and_steps
from ....executor.statements.single_rows import single_row
from ....model.lazy_dataclass import dataclass
from ....model.namespaces import TEMPORARY_NAMESPACE
from ....model.schema import Table
from ....model.store import ScanSpec, ScanToken, Store, Timestamp
from ....model.transactions import Isolation
from ....planner import Plan, plan_query
from ....planner.algebra.physical import TableScan
from ....sql import ParsedStatement, bound
from ....sql.binding.binder import bind_given
from ....sql.placeholders import match_parameters
from ..metadata.columns import schema_of
from .part_tickets import PartTicket
from .reports import Refused

LONGEST_TEXT: Final = 1 << 14
"""Characters of a query that is cut: each ticket has them."""
MOST_PARTS: Final = 256
_MOST_KNOWN: Final = 1000
_LOOK_SECONDS: Final = 1.0
"""Seconds for which the names of tables with several tablets are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartLimits:
    """Limits of parts.

    Parameters
    ----------
    rows : int
        Rows that a part has at least, by the table's statistics; 0: a part for each tablet.
    seconds : float
        Seconds until a ticket expires.
    """

    rows: int = 1 << 16
    seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a query: the schema of its rows, and at least two tickets."""

    schema: pa.Schema
    tickets: tuple[PartTicket, ...]


class QueryParts:
    """Cuts the queries of one session. Statements with parameters are not cut.

    Parameters
    ----------
    session : Session
    limits : PartLimits
    """

    def __init__(self, session: Session, limits: PartLimits):
        self._session = session
        self._limits = limits
        self._names: tuple[str, ...] = ()
        self._names_until = 0.0
        self._whole: set[tuple[str, int]] = set()
        """Texts that are not cut, with the version of the catalog."""

    def of(self, text: str) -> Parts | None:
        """The parts of a query; None for a text that is to be run as a whole, also if it has an error."""
        session = self._session
        if len(text) > LONGEST_TEXT or not self._mentions_large(text):
            return None
        key = text, session.transactions.store.catalog_version
        if key in self._whole:
            return None
        # After an error the text is run as a whole, and the error reported as that of any statement.
        with contextlib.suppress(Error, RecursionError):
            parsed = session.parse(text)
            if len(parsed) == 1 and kind_of(parsed[0].tree) is Kind.QUERY:
                with session.turn():
                    return self._cut(key, parsed[0])
        return None

    def _mentions_large(self, text: str) -> bool:
        """False if a text surely reads no table that has several tablets."""
        now = time.monotonic()
        if now > self._names_until:
            self._names, self._names_until = self._large(), now + _LOOK_SECONDS
        lowered = text.lower()
        return any(name in lowered for name in self._names)

    def _large(self) -> tuple[str, ...]:
        store = self._session.transactions.store
        names = [
            table.name
            for table in store.tables()
            if store.statistics(table).row_count >= 2 * self._limits.rows and store.tablet_count(table) > 1
        ]
        if names:
            names += [view.name for view in store.views()]
        return tuple(name.rpartition(".")[2].lower() for name in names)

    def _cut(self, key: tuple[str, int], parsed: ParsedStatement) -> Parts | None:
        session = self._session
        snapshot = _snapshot(session)
        if snapshot is None:
            return None
        planned = self._planned(parsed)
        if planned is None:
            if len(self._whole) >= _MOST_KNOWN:
                self._whole.clear()
            self._whole.add(key)
            return None
        query, scan = planned
        groups = self._groups(session.transactions.store, scan, snapshot)
        if len(groups) < 2:
            return None
        identity = session.identity
        user, role = ("", None) if identity is None else (identity.user, identity.role)
        common = key[0], user, None if role == user else role, session.settings.get("search_path"), snapshot
        expires = time.time() + self._limits.seconds
        tickets = (PartTicket(*common, scan.table.id, tablets, expires) for tablets in groups)
        return Parts(schema_of(query.columns), tuple(tickets))

    def _planned(self, parsed: ParsedStatement) -> tuple[bound.Query, TableScan] | None:
        """A query that can be cut, and its scan; None for any other statement."""
        session = self._session
        if session.settings.get("engine") != LOCAL:
            return None
        binding = bind_given(parsed, session.store, match_parameters(parsed, None), session=session.facts)
        statement = binding.statement
        if not binding.is_lasting or not isinstance(statement, bound.SelectStatement):
            return None
        if statement.settings or statement.locks or single_row(statement) is not None:
            return None
        scan = scan_of(plan_query(statement.query, session.store))
        if scan is None or scan.table.namespace == TEMPORARY_NAMESPACE:
            return None
        return statement.query, scan

    def _groups(self, store: Store, scan: TableScan, snapshot: Timestamp) -> list[tuple[str, ...]]:
        """The tablets of the parts, in the order of the table's."""
        rows: dict[str, int] = {}
        for token in store.scan_tokens(scan.table, ScanSpec((), scan.predicates, snapshot)):
            rows[token.tablet_id] = rows.get(token.tablet_id, 0) + token.rows
        tablets = list(rows)
        most = sum(rows.values()) // self._limits.rows if self._limits.rows else len(tablets)
        count = max(1, min(most, len(tablets), MOST_PARTS))
        ends = [place * len(tablets) // count for place in range(count + 1)]
        return [tuple(tablets[start:end]) for start, end in pairwise(ends)]


def _snapshot(session: Session) -> Timestamp | None:
    """At which parts of the session's next query read; None if they would miss rows that the transaction has changed,
    or reads that it must validate."""
    transaction = session.transactions.transaction
    if transaction is None:
        return session.store.now() if session.moment is None else session.moment
    if transaction.has_writes or transaction.options.isolation is not Isolation.SNAPSHOT:
        return None
    return transaction.snapshot


def scan_of(plan: Plan) -> TableScan | None:
    """The scan of a plan that is nothing but a scan, filters and projections; None for any other plan."""
    found = scan_and_steps(plan.root)
    if found is None or plan.deep:
        return None
    scan = found[0]
    return None if scan.limit is not None or scan.time is not None else scan


# ---- reading a part --------------------------------------------------------------------------------------------------


class TabletsOf:
    """A store that shows some tablets of one table alone (`model.store.Store`).

    Parameters
    ----------
    store : Store
    table : str
        The table's id.
    tablets : collection of str
        The ids of the tablets.
    """

    def __init__(self, store: Store, table: str, tablets: Collection[str]):
        self._store = store
        self._table = table
        self._tablets = frozenset(tablets)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def scan_tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]:
        """See `Store.scan_tokens`."""
        tokens: Sequence[ScanToken] = self._store.scan_tokens(table, spec)
        if table.id != self._table:
            return list(tokens)
        return [token for token in tokens if token.tablet_id in self._tablets]


def open_part(session: Session, ticket: PartTicket, halt: Halt) -> Iterator[Execution]:
    """The execution of a part, by a session of its reader; it ends with the iterator.

    Raises
    ------
    Refused
        The query is not a scan of this table any more: tables or views were replaced.
    PermissionDenied
        The reader may not read what the query reads.
    HistoryGone
        The store does not keep the past for so long.
    """
    reader = session.as_of(ticket.snapshot)
    try:
        reader.client = session.client
        reader.settings.run(bound.SetSetting("search_path", ticket.search_path))
        set_role(reader, ticket.role)
        reader.store = cast(Store, TabletsOf(reader.store, ticket.table, ticket.tablets))
        halt.text = ticket.text
        (parsed,) = reader.parse(ticket.text)
        statement = reader.bind(parsed)
        assert isinstance(statement, bound.SelectStatement)
        plan = plan_query(statement.query, reader.store)
        scan = scan_of(plan)
        if scan is None or scan.table.id != ticket.table:
            raise Refused("the query reads other tables than when its ticket was issued: run it again", "24000", True)
        yield reader.start(statement, plan, halt)
    finally:
        reader.close()
