"""The rights on tables that requests need, where tablets are served: what a tablet server checks by itself, whatever
its clients have checked before.

| request | rights of the user |
|---|---|
| write of rows | those of its operations: INSERT, INSERT and UPDATE for an UPSERT, UPDATE, DELETE or TRUNCATE |
| row, scan, samples of keys | SELECT; any right for columns of the primary key alone, which changes of rows look up |
| statistics, flush, numbers for new rows | any right on the table |
| analysis, compaction | the owner's |

The use of a schema (USAGE) is checked where its names are looked up, by the client, and not here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ....errors import PermissionDenied, ProtocolError, ReplicaUnavailable
from ....model.access.holders import RIGHTS_OF_OPS, Holder
from ....model.access.rights import TABLE_RIGHTS, Right, secured
from ....model.schema import Table
from ....model.store import Op
from ..messages import load_methods, methods, transaction_methods
from ..messages.plain import spec_from_plain

TableOf = Callable[[str], Table]
"""Returns the table of a tablet that is served here, by the tablet's id; raises `ReplicaUnavailable`."""
_DELETE: Final = (Right.DELETE, Right.TRUNCATE)
"""TRUNCATE arrives as the deletion of all rows."""


class TableRights:
    """Checks requests for tablets. All methods raise `PermissionDenied`.

    Parameters
    ----------
    table_of : callable
        See `TableOf`.
    table : callable, optional
        Returns a table by its own id, for requests that name one: of an embedded server.
    """

    def __init__(self, table_of: TableOf, table: Callable[[str], Table | None] = lambda table_id: None):
        self._table_of = table_of
        self._table = table
        self._checks: Mapping[type[Any], Callable[[Holder, Any], None]] = {
            methods.Write: lambda holder, request: self._write(holder, request),
            methods.WriteRow: lambda holder, request: self._write_row(holder, request),
            methods.ReadRow: lambda holder, request: self._read(holder, request.tablet_id, request.columns),
            methods.StartScan: lambda holder, request: self._scan(holder, request.ticket),
            methods.ScanTablet: self._scan,
            methods.DescribeTablets: self._describe,
            methods.KeySamples: lambda holder, request: self._read(holder, request.tablet_id, ()),
            methods.WorkOnTablet: self._work,
            transaction_methods.TakeNumbers: lambda holder, request: self._any(holder, request.tablet_id),
            transaction_methods.StageWrite: lambda holder, request: self._write(holder, request.part),
            transaction_methods.PrepareWrite: lambda holder, request: self._write(holder, request.part),
            load_methods.StartLoad: self._load,
        }

    def check(self, holder: Holder, request: Any) -> None:
        """Checks a request. Those that are not on this module's page name no table."""
        check = self._checks.get(type(request))
        if check is not None and not holder.is_superuser:
            check(holder, request)

    # ---- writes --------------------------------------------------------------------------------------------------

    def _write(self, holder: Holder, request: methods.Write) -> None:
        codes = (request.ops,) if isinstance(request.ops, int) else set(request.ops)
        require_ops(holder, self._table_of(request.tablet_id), codes)

    def _write_row(self, holder: Holder, request: methods.WriteRow) -> None:
        require_ops(holder, self._table_of(request.tablet_id), (request.op,))

    def _load(self, holder: Holder, request: load_methods.StartLoad) -> None:
        table = self._table(request.table_id)
        if table is not None:  # else the handler refuses it
            holder.require(Right.INSERT, secured(table))

    # ---- reads ---------------------------------------------------------------------------------------------------

    def _scan(self, holder: Holder, ticket: methods.ScanTablet) -> None:
        spec = spec_from_plain(ticket.spec)
        columns = [*spec.columns, *(predicate.column for predicate in spec.predicates)]
        if spec.changes is not None:
            holder.require(Right.SELECT, secured(self._table_of(ticket.tablet_id)))
        self._read(holder, ticket.tablet_id, columns)

    def _read(self, holder: Holder, tablet_id: str, columns: Sequence[str]) -> None:
        table = self._table_of(tablet_id)
        keys = {column.name for column in table.schema.columns[: table.schema.key_columns]}
        try:
            holder.require_one_of(TABLE_RIGHTS if keys.issuperset(columns) else (Right.SELECT,), secured(table))
        except PermissionDenied as error:
            raise PermissionDenied(
                f"{error}; a view shows its owner's tables to others through a gateway only"
            ) from None

    # ---- others --------------------------------------------------------------------------------------------------

    def _describe(self, holder: Holder, request: methods.DescribeTablets) -> None:
        for tablet_id in request.tablet_ids:
            try:
                self._any(holder, tablet_id)
            except ReplicaUnavailable:
                continue  # it is left out of the reply

    def _any(self, holder: Holder, tablet_id: str) -> None:
        holder.require_one_of(TABLE_RIGHTS, secured(self._table_of(tablet_id)))

    def _work(self, holder: Holder, request: methods.WorkOnTablet) -> None:
        if request.work == "flush":
            self._any(holder, request.tablet_id)
        else:
            holder.require_owner(secured(self._table_of(request.tablet_id)), request.work.upper())


def require_ops(holder: Holder, table: Table, codes: Iterable[int]) -> None:
    """Checks the rights on a table that a write with these operations' codes needs."""
    object_ = secured(table)
    for code in codes:
        try:
            needed = RIGHTS_OF_OPS[Op(code)]
        except ValueError:
            raise ProtocolError(f"no write op has the number {code}") from None
        for right in needed:
            holder.require_one_of(_DELETE if right is Right.DELETE else (right,), object_)
