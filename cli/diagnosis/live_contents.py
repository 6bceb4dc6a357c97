"""The state of a running store or cluster: settings, metrics, statements with plans, tablets, operations, servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...cluster.admin.ksck import ksck
from ...cluster.admin.view import look
from ...cluster.wire.calls.rpc import Channels
from ...cluster.wire.client_clock import ClientClock
from ...cluster.wire.security.tls import read_credentials
from ...cluster.wire.security.tls_files import tls_files
from ...driver.connection import Connection
from ...driver.stores.cluster_url import servers, tls_options
from ...errors import Error
from ...model.clock import HybridClock
from ...net.addresses import address_of
from ...sql.masked_text import mask_plan, mask_statement
from .masking import mask_text

SLOW_SECONDS = 1.0
"""Statements that took as long are explained."""
SLOW_STATEMENTS = 20
_PATIENCE_SECONDS = 4.0
_VALUES = ("partition", "min_key", "max_key", "error", "client")
"""Columns of `nyala_catalog` whose texts may hold values of rows, or addresses of clients."""
_RELATIONS = ("tablets", "rowsets", "operations", "operation_kinds")


def read_live(connection: Connection, url: str, tls: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """Parts of the archive, by name: plain data for JSON."""
    yield "settings.json", _part(lambda: [_masked(row) for row in _rows(connection, "SHOW ALL")])
    yield "metrics.json", _part(lambda: _rows(connection, "SHOW METRICS"))
    yield "statements.json", _part(lambda: _statements(connection))
    for name in _RELATIONS:
        yield f"{name}.json", _part(lambda: _without_values(_rows(connection, f"SELECT * FROM nyala_catalog.{name}")))  # noqa: B023
    yield "cluster.json", _part(lambda: _cluster(url, tls))


def _part(read: Callable[[], Any]) -> Any:
    """The result of `read`; its error, as data, if it fails: the other parts are as useful."""
    try:
        return read()
    except Error as error:
        return {"error": type(error).__name__, "sqlstate": error.sqlstate, "message": mask_text(str(error))}


def _rows(connection: Connection, statement: str) -> list[dict[str, Any]]:
    cursor = connection.execute(statement)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row)) for row in cursor.fetchall()]


def _masked(row: dict[str, Any]) -> dict[str, Any]:
    """A setting; its value is masked by its name, too."""
    line = mask_text(f"{row.get('name')}={row.get('value')}")
    return {**row, "value": line.partition("=")[2]} if "value" in row else row


def _without_values(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in _VALUES} for row in rows]


def _statements(connection: Connection) -> list[dict[str, Any]]:
    """Recent statements with masked texts; slow queries with their plan as it would be today."""
    rows = _rows(connection, "SELECT * FROM nyala_catalog.statements ORDER BY seconds DESC")
    slow = [row for row in rows if (row.get("seconds") or 0) >= SLOW_SECONDS][:SLOW_STATEMENTS]
    plans = {id(row): _plan(connection, str(row.get("statement"))) for row in slow}
    found = []
    for row, kept in zip(rows, _without_values(rows)):
        text = mask_statement(str(kept.pop("statement", "")))
        found.append({**kept, "statement": text, **({"plan": plans[id(row)]} if id(row) in plans else {})})
    return found


def _plan(connection: Connection, statement: str) -> list[str]:
    try:
        return [mask_plan(str(row[0])) for row in connection.execute(f"EXPLAIN {statement}").fetchall()]
    except Error as error:  # a statement that cannot be explained, or whose table has been dropped
        return [f"not explained: {type(error).__name__}"]


def _cluster(url: str, tls: dict[str, str]) -> dict[str, Any]:
    """Servers and tablets as `nyala cluster ksck` reports them."""
    masters = [address_of(host, port) for host, port in servers(url)]
    files = tls_files(tls_options(url, tls))
    channels = Channels(ClientClock(), tls=None if files is None else read_credentials(files))
    try:
        view = look(channels, masters, HybridClock(), 30.0, _PATIENCE_SECONDS, leaderless=True)
        return {**ksck(view).to_dict()}
    finally:
        channels.close()
