"""Tables with their size, one table with its schema and tablets, and tablets with their replicas."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final

from ....errors import Error, UnknownTable
from ....model.schema import Table
from ....model.store import TabletDescription
from ..request import Request
from .frame import Page
from .html import Html, Right, element, facts, join, link, size, table
from .layout import layout

AT_ONCE: Final = 100
"""Tables of a page: the tablets of each are described, which on a cluster takes calls."""
TABLETS_AT_ONCE: Final = 500
DESCRIBED_SECONDS: Final = 8.0
DESCRIBED_TOGETHER: Final = 16
"""Tables whose tablets are described at the same time."""


def tables(request: Request) -> Page:
    """The page "/tables": `name` filters, `page` counts from 0."""
    store = request.subject.connection().store
    wanted, page = request.value("name").lower(), request.number("page")
    found = sorted((t for t in store.tables() if wanted in t.name.lower()), key=lambda t: t.name)
    shown = found[page * AT_ONCE : (page + 1) * AT_ONCE]
    search = element(
        "form",
        element("label", "Name has ", element("input", type="search", name="name", value=request.value("name"))),
        " ",
        element("button", "Filter"),
        method="get",
        action="/tables",
        role="search",
    )
    rows = _rows(request, store, shown)
    headings = ("Table", "Columns", "Partitions", "Tablets", "Rows", "Rows/s since last look", "On disk", "State")
    about = f"Tables {page * AT_ONCE + 1:,} to {page * AT_ONCE + len(shown):,} of {len(found):,}" if shown else "Tables"
    return "Tables", join([search, table(about, headings, rows, "There is none."), _pager(request, page, len(found))])


def _rows(request: Request, store: Any, shown: Sequence[Table]) -> list[Sequence[Any]]:
    """The rows of tables, as far as their tablets are described within `DESCRIBED_SECONDS`. One after the other, those
    of a server that does not respond would hold up the page for 5 s each."""
    pool = ThreadPoolExecutor(DESCRIBED_TOGETHER, "nyala-http-tables")
    try:
        described = [pool.submit(store.describe_tablets, each) for each in shown]
        wait(described, DESCRIBED_SECONDS)
        return [_row(request, each, found) for each, found in zip(shown, described, strict=True)]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _row(request: Request, each: Table, described: Future[Sequence[TabletDescription]]) -> Sequence[Any]:
    columns = len(each.schema.visible_columns)
    name = link(each.name, "/table", name=each.name)
    try:
        tablets = described.result(0)
    except (Error, TimeoutError) as error:  # dropped meanwhile, or without a leader; or the page waits no longer
        reason = "no answer in time; see the cluster" if isinstance(error, TimeoutError) else str(error)
        return name, columns, _partitions(each), None, None, None, None, element("span", reason, class_="bad")
    rows = sum(tablet.rows for tablet in tablets)
    damaged = sum(replica.role == "QUARANTINED" for tablet in tablets for replica in tablet.replicas)
    state = element("span", f"{damaged} damaged", class_="bad") if damaged else "whole"
    rate = _rate(request, each.id, rows)
    return name, columns, _partitions(each), len(tablets), rows, rate, size(sum(t.bytes for t in tablets)), state


def _rate(request: Request, table_id: str, rows: int) -> Right | None:
    """Change of the number of rows per second since a page showed the table last; None at the first time."""
    now = time.monotonic()
    before = request.server.seen.get(table_id)
    request.server.seen[table_id] = now, rows
    if before is None or now - before[0] < 0.1:
        return None
    return Right(f"{(rows - before[1]) / (now - before[0]):+,.1f}")


def _partitions(each: Table) -> str:
    rules = each.partitions.rules_of(None) if each.partitions.range_rule is None else ()
    hashed = [f"HASH ({', '.join(rule.columns)}) {rule.buckets}" for rule in rules]
    ranged = each.partitions.range_rule
    return "; ".join([*hashed, *([f"RANGE ({', '.join(ranged.columns)})"] if ranged is not None else [])]) or "none"


def _pager(request: Request, page: int, count: int) -> Html:
    links = []
    if page:
        links.append(link("Previous page", "/tables", page=page - 1, name=request.value("name")))
    if (page + 1) * AT_ONCE < count:
        links.append(link("Next page", "/tables", page=page + 1, name=request.value("name")))
    return element("p", *(join([each, " "]) for each in links))


def table_page(request: Request) -> Page:
    """The page "/table" of one table, by `name`."""
    connection = request.subject.connection()
    name = request.value("name")
    found = next((each for each in connection.store.tables() if each.name == name), None)
    if found is None:
        raise UnknownTable(f"table {name} does not exist")
    columns = [
        (column.name, str(column.type), "NULL" if column.nullable else "NOT NULL", _attributes(found, column))
        for column in found.schema.visible_columns
    ]
    tablets = connection.store.describe_tablets(found)
    rowsets = [row for row in request.subject.rows("rowsets") if row["table_name"] == name]
    quoted = found.name.replace('"', '""')
    return f"Table {name}", join(
        [
            facts(
                (
                    ("Rows", f"{sum(tablet.rows for tablet in tablets):,}"),
                    ("On disk", size(sum(tablet.bytes for tablet in tablets))),
                    ("Quota", None if found.quota_bytes is None else size(found.quota_bytes)),
                    ("Tablets", str(len(tablets))),
                    ("Partitions", _partitions(found)),
                    ("Comment", getattr(found, "comment", None) or None),
                    ("Console", link("query it", "/console", sql=f'SELECT * FROM "{quoted}" LIMIT 100')),
                )
            ),
            table("Columns", ("Name", "Type", "", "Attributes"), columns),
            _tablet_table([_described(name, tablet) for tablet in tablets]),
            layout(rowsets),
        ]
    )


def _attributes(found: Table, column: Any) -> str:
    key = [each.name for each in found.schema.key]
    parts = [f"key {key.index(column.name) + 1}"] if column.name in key else []
    for name in ("encoding", "compression", "block_size", "comment"):
        value = getattr(column, name, None)
        text = str(getattr(value, "value", value) or "")
        if text not in ("", "AUTO"):
            parts.append(f"{name.replace('_', ' ')} {text}")
    return ", ".join(parts)


def _described(name: str, tablet: Any) -> Mapping[str, Any]:
    replicas = ", ".join(f"{replica.host} ({replica.role.lower()})" for replica in tablet.replicas)
    return {
        "table_name": name,
        "tablet_id": tablet.id,
        "partition": tablet.partition,
        "rows": tablet.rows,
        "disk_bytes": tablet.bytes,
        "replicas": replicas,
    }


def _tablet_table(rows: Sequence[Mapping[str, Any]]) -> Html:
    shown = [
        (row["tablet_id"], row["partition"], row["rows"], size(row["disk_bytes"]), row["replicas"])
        for row in rows[:TABLETS_AT_ONCE]
    ]
    left = len(rows) - len(shown)
    more = element("p", f"{left:,} more are left out.", class_="quiet") if left else None
    return join([table("Tablets", ("Tablet", "Partition", "Rows", "On disk", "Replicas"), shown), more])


def tablets(request: Request) -> Page:
    """The page "/tablets": those of this server with their part in Raft, or those of the store."""
    server = request.subject.status()
    reports = request.subject.reports()
    if reports is not None:
        names = {row["tablet_id"]: row["table_name"] for row in request.subject.rows("tablets")}
        return "Tablets", join([_report_table(reports, names), _server_facts(server)])
    grouped: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for row in request.subject.rows("tablets"):
        key = row["table_name"], row["tablet_id"], row["partition"], row["rows"], row["disk_bytes"]
        grouped[key].append(f"{row['host']} ({row['role'].lower()})")
    rows = [
        (link(key[0], "/table", name=key[0]), *key[1:4], size(key[4]), ", ".join(replicas))
        for key, replicas in list(grouped.items())[:TABLETS_AT_ONCE]
    ]
    left = len(grouped) - len(rows)
    more = element("p", f"{left:,} more are left out: the pages of their tables have them.") if left > 0 else None
    return "Tablets", join([table("Tablets", ("Table", "Tablet", "Partition", "Rows", "On disk", "At"), rows), more])


def _report_table(reports: Sequence[Any], names: Mapping[str, str]) -> Html:
    headings = (
        "Table", "Tablet", "State", "Role", "Term", "Last entry", "Not committed", "Not applied", "Rows", "On disk",
        "Prepared", "Error",
    )  # fmt: skip
    rows = [
        (
            link(names[report.tablet_id], "/table", name=names[report.tablet_id])
            if report.tablet_id in names
            else None,
            report.tablet_id,
            report.state,
            f"{report.role}{', serves' if report.is_serving else ''}",
            report.term,
            report.last_index,
            report.last_index - report.commit_index,
            report.commit_index - report.applied_index,
            report.rows,
            size(report.bytes),
            report.prepared,
            report.error or report.disk_full or None,
        )
        for report in reports[:TABLETS_AT_ONCE]
    ]
    left = len(reports) - len(rows)
    more = element("p", f"{left:,} more are left out.", class_="quiet") if left > 0 else None
    return join([table("Replicas of this server", headings, rows), more])


def _server_facts(status: Any) -> Html | None:
    if status is None:
        return None
    pairs = (("Id", status.id), ("Address", status.address), ("Leads", str(status.leaders)))
    return facts(pairs)
