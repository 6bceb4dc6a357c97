"""Checks one DiskRowSet: each file on its own, so that all damage is found, then the keys."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np
import pyarrow as pa

from ....model import arrow_functions as pc
from ....model.schema import Schema
from ....model.types import DataType
from ....model.vectors.vector import Dict, Flat, Narrow, Vector
from ...columns.column_file import HEADER, Footer
from ...columns.column_reader import ColumnReader
from ...files.filesystem import FileSystem
from ...files.page_cache import PageCache
from ...keys.bloom import BloomReader
from ...rowsets.disk_rowset import DiskRowSet
from ...rowsets.rowset_metadata import RowSetMetadata
from ..dump.column_footer import file_facts
from ..files import file_size
from .findings import Report


def check_rowset(
    fs: FileSystem,
    directory: str,
    schema: Schema,
    metadata: RowSetMetadata,
    missing: Container[str],
    cache: PageCache,
    report: Report,
) -> DiskRowSet | None:
    """Check the files of a rowset but those that are `missing`, then order and index of its keys.

    Returns the rowset, open for its key columns only, where its keys can be trusted.
    """
    report.checked.rowsets += 1
    report.checked.rows += metadata.row_count
    types = {column.id: column.type for column in schema.columns}
    sound = set()
    for column, name in metadata.column_files.items():
        path = f"{directory}/{name}"
        if name not in missing and check_column(fs, path, column, types.get(column), metadata.row_count, report):
            sound.add(column)
    bloom = metadata.bloom_file not in missing and _check_bloom(fs, directory, metadata, report)
    if not bloom or not sound >= {column.id for column in schema.key}:
        return None
    rowset = DiskRowSet.open(fs, directory, Schema(schema.key, len(schema.key)), metadata, cache)
    before = len(report.findings)
    with report.reading(f"{directory}/{metadata.column_files[schema.key[0].id]}", f"keys of rowset {metadata.id}"):
        rowset.check()
    return rowset if len(report.findings) == before else None


def _check_bloom(fs: FileSystem, directory: str, metadata: RowSetMetadata, report: Report) -> bool:
    path = f"{directory}/{metadata.bloom_file}"
    cache = PageCache(0)
    reader = BloomReader(cache.handles(fs), path, metadata.row_count, cache)
    before = len(report.findings)
    report.checked.bloom_filters += 1
    with report.reading(path):
        report.checked.bytes += file_size(fs, path)
        reader.check()
        reader.close()
    return len(report.findings) == before


def check_column(fs: FileSystem, path: str, column: int, type_: DataType | None, rows: int, report: Report) -> bool:
    """Check one column file: header, footer, pages, what the footer says of them. Is it sound?

    Without `type_` (a column that the table has no more) the footer's own word is taken.
    """
    cache = PageCache(0)
    reader: ColumnReader | None = None
    before = len(report.findings)
    report.checked.column_files += 1
    with report.reading(path):
        report.checked.bytes += file_size(fs, path)
        known = type_ or file_facts(fs, path).type
        reader = ColumnReader(cache.handles(fs), path, column, known, rows, cache)
        _check_page_index(fs, path, reader.footer, report)
    if reader is None or len(report.findings) > before:
        return False
    if reader.footer.dictionary is not None:
        with report.reading(path, "dictionary"):
            _check_dictionary(reader, report)
    for number, record in enumerate(reader.footer.pages):
        report.checked.pages += 1
        place = f"page {number} at offset {int(record['offset'])}"
        with report.reading(path, place):
            vector = reader.page(number)
            for fault in _faults(vector, record, reader.footer.page_length(number)):
                report.error(path, place, fault)
    reader.close()
    return len(report.findings) == before


def _check_page_index(fs: FileSystem, path: str, footer: Footer, report: Report) -> None:
    """Pages and dictionary must fill the file from header to footer: so every byte is under a checksum."""
    expected = -(-footer.rows // footer.page_rows)
    if len(footer.pages) != expected:
        report.error(path, "footer", f"{len(footer.pages)} pages for {footer.rows:,} rows, {expected} expected")
    records = [*footer.pages, *([] if footer.dictionary is None else footer.dictionary)]
    place = HEADER.size
    for record in sorted(records, key=lambda r: int(r["offset"])):
        if int(record["offset"]) != place:
            report.error(path, "footer", f"a page at offset {int(record['offset'])}, expected at {place}")
            return
        place += int(record["stored"])
    if place != (end := file_facts(fs, path).footer_offset):
        report.error(path, "footer", f"the pages end at offset {place}, the footer begins at {end}")


def _check_dictionary(reader: ColumnReader, report: Report) -> None:
    entries = reader.dictionary
    entries.validate(full=True)
    raw = entries.cast(pa.binary())
    if len(raw) > 1 and not pc.all(pc.less(raw[:-1], raw[1:])).as_py():
        assert reader.footer.dictionary is not None
        place = f"dictionary at offset {int(reader.footer.dictionary[0]['offset'])}"
        report.error(reader.path, place, "its entries do not ascend")


def _faults(vector: Vector, record: Any, rows: int) -> list[str]:
    """Differences between a page's values and the footer."""
    faults = []
    if len(vector) != rows:
        faults.append(f"{len(vector):,} rows, {rows:,} expected")
    nulls = 0 if vector.validity is None else int(np.count_nonzero(~vector.validity))
    if nulls != int(record["nulls"]):
        faults.append(f"{nulls:,} NULLs, the footer has {int(record['nulls']):,}")
    if isinstance(vector, Dict):
        if len(vector.codes) and int(vector.codes.max()) >= max(1, len(vector.dictionary)):
            faults.append(f"code {int(vector.codes.max())}, the dictionary has {len(vector.dictionary)} entries")
        return faults
    if isinstance(vector, (Flat, Narrow)) and not vector.type.is_float:
        values = vector.values() if vector.validity is None else vector.values()[vector.validity]
        low, high = int(record["low"]), int(record["high"])
        if len(values) and not (low <= int(values.min()) and int(values.max()) <= high):
            faults.append(f"values from {int(values.min())} to {int(values.max())}, the footer has {low} to {high}")
    elif not isinstance(vector, (Flat, Narrow)):
        vector.to_arrow().validate(full=True)
    return faults
