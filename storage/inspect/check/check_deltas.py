"""Checks the delta files of one rowset: each on its own, then against the metadata that names them."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import pairwise

import numpy as np

from ....model.schema import Table
from ...columns.column_file import HEADER, ROW_GROUP_ROWS, TAIL, footer_size
from ...deltas.delta_file import DeltaFile
from ...deltas.delta_format import BlockRecord, DeltaFooter
from ...deltas.deltas import DeltaKind, Deltas
from ...files.filesystem import FileSystem
from ...files.page_cache import PageCache
from ...rowsets.rowset_metadata import RowSetMetadata
from ..files import file_size, read_file
from .findings import Report


def check_deltas(
    fs: FileSystem,
    directory: str,
    table: Table,
    metadata: RowSetMetadata,
    newest: int,
    missing: Container[str],
    report: Report,
) -> bool:
    """Check the delta files of a rowset but those that are `missing`. Are all of its REDO files there and sound?

    `newest` is the tablet's newest timestamp, by its metadata.
    """
    for name in metadata.undo_files:
        if name not in missing:
            path = f"{directory}/{name}"
            file = _check_file(fs, path, table, metadata.row_count, newest, report)
            if file is not None and file.statistics.newest > metadata.newest_undo:
                message = "it has newer deltas than the metadata says of the rowset's UNDO files"
                report.error(path, "footer", message)
    before: DeltaFile | None = None
    sound = True
    for name in metadata.redo_files:
        path = f"{directory}/{name}"
        file = None if name in missing else _check_file(fs, path, table, metadata.row_count, newest, report)
        if file is not None and before is not None and file.statistics.oldest < before.statistics.newest:
            report.error(path, "footer", f"it has older deltas than {before.path}, which the metadata names before it")
        before = file or before
        sound &= file is not None
    return sound


def _check_file(
    fs: FileSystem, path: str, table: Table, row_count: int, newest: int, report: Report
) -> DeltaFile | None:
    """Check one file. Returns it, closed but with its statistics read, where it is sound."""
    cache = PageCache(0)
    file = DeltaFile(cache.handles(fs), path, None, cache)
    before = len(report.findings)
    report.checked.delta_files += 1
    with report.reading(path):
        report.checked.bytes += file_size(fs, path)
        # Through the table's schema first: it knows the types that the file must have.
        DeltaFile(cache.handles(fs), path, table.schema, cache).footer  # noqa: B018
        _check_parts(fs, path, file.footer, report)
        if file.statistics.newest > newest:
            report.error(path, "footer", "it has deltas that are newer than the tablet's newest timestamp")
        for column in file.footer.types:
            if column >= table.next_column_id:
                report.error(path, "footer", f"table {table.name} never had a column with id {column}")
        for number, block in enumerate(file.footer.blocks):
            report.checked.deltas += block.count
            place = f"block {number} at offset {block.head.offset}"
            with report.reading(path, place):
                for fault in _faults(file.read_block(number), block, row_count):
                    report.error(path, place, fault)
        _check_order(file.footer.blocks, path, report)
    file.close()
    return file if len(report.findings) == before else None


def _check_parts(fs: FileSystem, path: str, footer: DeltaFooter, report: Report) -> None:
    """Parts must fill the file from header to footer: so every byte is under a checksum."""
    place = HEADER.size
    for block in footer.blocks:
        for part in (block.head, *(part for _, part in block.columns.values())):
            if part.offset != place:
                report.error(path, f"offset {place}", f"the next part begins at {part.offset}")
            place = part.offset + part.stored
    data = read_file(fs, path)
    end = len(data) - TAIL.size - footer_size(data[-TAIL.size :], len(data), path)
    if place != end:
        report.error(path, f"offset {place}", f"the parts end here, the footer begins at {end}")


def _check_order(blocks: Sequence[BlockRecord], path: str, report: Report) -> None:
    if not blocks:
        report.error(path, "footer", "it has no block")
    for number, (one, other) in enumerate(pairwise(blocks), 1):
        if other.first_row < one.last_row:
            message = f"begins with row {other.first_row:,}, the block before ends with row {one.last_row:,}"
            report.error(path, f"block {number} at offset {other.head.offset}", message)


def _faults(deltas: Deltas, block: BlockRecord, row_count: int) -> list[str]:
    """Differences between a block's deltas and its record, or the rowset."""
    rows, times = deltas.rows, deltas.timestamps
    faults = []
    if not ((rows[1:] > rows[:-1]) | ((rows[1:] == rows[:-1]) & (times[1:] > times[:-1]))).all():
        faults.append("the deltas do not ascend by row and time")
    if int(rows[0]) < 0 or int(rows[-1]) >= row_count:
        faults.append(f"deltas of the rows {rows[0]:,} to {rows[-1]:,}, the rowset has {row_count:,}")
    if rows[0] // ROW_GROUP_ROWS != rows[-1] // ROW_GROUP_ROWS:
        faults.append("the deltas are of several row groups")
    kinds = [int(np.count_nonzero(deltas.kinds == kind)) for kind in DeltaKind]
    if sum(kinds) < len(deltas):
        faults.append("deltas of an unknown kind")
    said = (block.first_row, block.last_row, block.oldest, block.newest, block.deletes, block.reinserts)
    true = (int(rows[0]), int(rows[-1]), deltas.oldest, deltas.newest, kinds[1], kinds[2])
    names = ("first row", "last row", "oldest", "newest", "DELETEs", "REINSERTs")
    faults += [f"{name} {b:,}, the footer has {a:,}" for name, a, b in zip(names, said, true) if a != b]
    for column, given in deltas.columns.items():
        if not (np.diff(given.places) > 0).all() or not 0 <= given.places[0] <= given.places[-1] < len(deltas):
            faults.append(f"the values of column id {column} belong to no deltas")
        given.values.validate(full=True)
    return faults
