"""Catalog, tablet metadata and load records as text."""

from __future__ import annotations

from collections.abc import Sequence

from ....model.clock import format_timestamp
from ....model.partitions.partition import Partitioner
from ....model.schema import ColumnSchema, Table
from ....model.store import Timestamp
from ...loads.load_record import LoadRecord
from ...rowsets.rowset_metadata import RowSetMetadata
from ...tables.catalog import Catalog, CatalogEntry
from ...tablet.tablet_metadata import TabletMetadata
from ..text import format_bytes, key_text, plural, table_lines, value_text


def describe_catalog(path: str, catalog: Catalog) -> str:
    """Tables with columns and tablets, for a person."""
    lines = [
        f"catalog {path}",
        f"  version      {catalog.version:,}",
        f"  next table   {catalog.next_table:,}",
        f"  tables       {len(catalog.entries):,}",
    ]
    lines += [f"  decides on   {timestamp}, in {', '.join(parts)}" for timestamp, parts in catalog.decided.items()]
    for name in sorted(catalog.entries):
        lines += ["", *_table_lines(catalog.entries[name])]
    return "\n".join(lines)


def _table_lines(entry: CatalogEntry) -> list[str]:
    table = entry.table
    partitions = Partitioner(table.schema, table.partitions).partitions
    lines = [f"table {table.name} ({table.id}), version {table.version}"]
    if table.comment:
        lines.append(f"  {table.comment}")
    keys = {column.id for column in table.schema.key}
    rows = [_column_row(column, column.id in keys) for column in table.schema.columns]
    header = ["id", "column", "type", "null", "key", "default", "encoding", "compression", "comment"]
    lines += [f"  {line}" for line in table_lines(header, rows, left=header[1:])]
    lines += [f"  tablet {tablet_id}: {p.describe()}" for tablet_id, p in zip(entry.tablet_ids, partitions)]
    return lines


def _column_row(column: ColumnSchema, is_key: bool) -> list[object]:
    return [
        column.id,
        column.name,
        str(column.type),
        "NULL" if column.nullable else "NOT NULL",
        "key" if is_key else "",
        "" if column.default is None else value_text(column.type, column.default),
        column.encoding.value,
        column.compression.value,
        column.comment,
    ]


def describe_tablet_metadata(path: str, metadata: TabletMetadata, table: Table | None) -> str:
    """The rowsets and how far they reach, for a person; `table` makes keys readable."""
    lines = [
        f"tablet metadata {path}",
        f"  tablet         {metadata.tablet_id}{'' if table is None else f' of table {table.name}'}",
        f"  rowsets        {len(metadata.rowsets):,} with {plural(sum(r.row_count for r in metadata.rowsets), 'row')}",
        f"  next rowset    {metadata.next_rowset_id}",
        f"  durable index  {metadata.durable_index:,} (rows of log entries up to here are in rowsets)",
        f"  replay index   {metadata.replay_index:,} (all that log entries up to here did is in files)",
        f"  log index      {metadata.log_index:,} (the log reached at least as far when this was written)",
        f"  last load      {_moment(metadata.last_load)}",
        f"  newest         {_moment(metadata.newest)}",
        f"  history since  {_moment(metadata.ancient_history_mark)}",
    ]
    if metadata.commit_index:
        lines.append(f"  commit index   {metadata.commit_index:,} (the commit log reached at least as far, likewise)")
    if metadata.cut_commits:
        lines.append(f"  cut commits    {metadata.cut_commits:,} (COMMITs up to here do not count for the log's end)")
    if metadata.rowsets:
        lines += ["", *_rowset_lines(metadata.rowsets, table)]
    return "\n".join(lines)


def describe_load_record(path: str, record: LoadRecord, table: Table | None) -> str:
    """The rowsets of a bulk load that is being published, for a person."""
    lines = [f"load record {path}", f"  timestamp    {_moment(record.timestamp)}"]
    for tablet_id, load in record.tablets.items():
        lines += ["", f"tablet {tablet_id}", *_rowset_lines(load.rowsets, table)]
    return "\n".join(lines)


def _rowset_lines(rowsets: Sequence[RowSetMetadata], table: Table | None) -> list[str]:
    types = None if table is None else [column.type for column in table.schema.key]
    header = [
        "rowset",
        "rows",
        "bytes",
        "columns",
        "undo",
        "redo",
        "least key",
        "greatest key",
        "inserted",
        "newest undo",
    ]
    rows = [
        [
            r.id,
            r.row_count,
            r.data_bytes,
            len(r.column_files),
            len(r.undo_files),
            len(r.redo_files),
            key_text(types, r.min_key),
            key_text(types, r.max_key),
            _moment(r.inserted),
            _moment(r.newest_undo),
        ]
        for r in rowsets
    ]
    return [
        *table_lines(header, rows, left=["least key", "greatest key", "inserted", "newest undo"]),
        f"together {format_bytes(sum(r.data_bytes for r in rowsets))}",
    ]


def _moment(timestamp: int) -> str:
    return format_timestamp(Timestamp(timestamp)) if timestamp else "none"
