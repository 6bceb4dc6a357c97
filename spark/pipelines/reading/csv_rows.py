"""Second pass over CSV: batches of texts, NULL for an empty field without quotes, and the text of malformed records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pacsv

from ....errors import DataError
from ....executor.files.csv_files import parse_options
from ....executor.files.csv_text import Dialect, as_clause
from .csv_scan import csv_blocks
from .listing import path_of
from .raw_files import Span, chunks

BATCH_ROWS: Final = 1 << 15


def csv_rows(span: Span, columns: Sequence[str], dialect: Dialect) -> Iterator[tuple[pa.RecordBatch, list[str]]]:
    """Batches of a span's records, with the texts of those that have more or fewer fields than the file has columns.

    Raises `DataError` if their number differs from that of the first pass.
    """
    bad: list[str] = []
    rows = malformed = 0
    # Names of a file may not be unique, and pyarrow requires unique names; positions are.
    places = [f"{place}" for place in range(len(columns))]
    for batch in _batches(span, places, dialect, bad):
        found, bad[:] = list(bad), []
        rows += batch.num_rows
        malformed += len(found)
        yield batch.rename_columns(list(columns)), found
    if bad:
        malformed += len(bad)
        nothing = pa.RecordBatch.from_arrays([pa.array([], pa.string()) for _ in columns], names=list(columns))
        yield nothing, list(bad)
    if rows + malformed != span.records:
        raise DataError(
            f"{path_of(span.uri)}: {rows + malformed:,} records were read after line {span.line}, where "
            f"{span.records:,} are; has the file been changed meanwhile?"
        )


def _batches(span: Span, places: list[str], dialect: Dialect, bad: list[str]) -> Iterator[pa.RecordBatch]:
    def on_invalid(row: Any) -> str:
        bad.append(row.text)
        return "skip"

    parse = parse_options(dialect, len(places) > 1, on_invalid)
    convert = pacsv.ConvertOptions(
        column_types=dict.fromkeys(places, pa.string()),
        null_values=[dialect.null],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        check_utf8=False,
    )
    try:
        for block in csv_blocks(span.uri, dialect, chunks(span.uri, dialect.encoding, span), span.line):
            read = pacsv.ReadOptions(use_threads=False, block_size=len(block.data) + 1, column_names=places)
            yield from pacsv.read_csv(pa.BufferReader(pa.py_buffer(block.data)), read, parse, convert).to_batches(
                BATCH_ROWS
            )
    except pa.ArrowInvalid as error:
        raise DataError(f"{path_of(span.uri)}, behind line {span.line}: {as_clause(str(error))}") from error
