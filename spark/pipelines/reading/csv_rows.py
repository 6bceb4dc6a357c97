"""Second pass over CSV: batches of texts, NULL for an empty field without quotes, and the text of malformed records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pacsv

from ....errors import DataError
from .csv_scan import Dialect
from .listing import path_of
from .raw_files import ChunkReader, Span, chunks

BATCH_ROWS: Final = 1 << 15
_BLOCK_BYTES: Final = 8 << 20


def csv_rows(span: Span, columns: Sequence[str], dialect: Dialect) -> Iterator[tuple[pa.RecordBatch, list[str]]]:
    """Batches of a span's records, with the texts of those that have more or fewer fields than the file has columns.

    Raises `DataError` if they are not as many as the first pass has counted.
    """
    bad: list[str] = []
    rows = malformed = 0
    # Names of a file may not be unique for pyarrow; places are.
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
            f"{path_of(span.uri)}: {rows + malformed:,} records were read behind line {span.line}, where "
            f"{span.records:,} are; has the file been changed meanwhile, or has it quotes within its fields?"
        )


def _batches(span: Span, places: list[str], dialect: Dialect, bad: list[str]) -> Iterator[pa.RecordBatch]:
    def on_invalid(row: Any) -> str:
        bad.append(row.text)
        return "skip"

    texts = dict.fromkeys(places, pa.string())
    reader = ChunkReader(chunks(span.uri, dialect.encoding, span))
    try:
        with pacsv.open_csv(
            pa.PythonFile(reader, mode="r"),
            read_options=pacsv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, column_names=places),
            parse_options=dialect.parse_options(len(places) == 1, on_invalid),
            convert_options=pacsv.ConvertOptions(
                column_types=texts,
                null_values=[dialect.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        ) as batches:
            for batch in batches:
                for start in range(0, batch.num_rows, BATCH_ROWS):
                    yield batch.slice(start, BATCH_ROWS)
    except pa.ArrowInvalid as error:
        raise DataError(f"{path_of(span.uri)}, behind line {span.line}: {error}") from error
