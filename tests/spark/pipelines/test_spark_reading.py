"""Files as rows of texts, without Spark: nothing is lost, split or replaced, whatever the bytes are."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import zlib
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nyala.errors import DataError, InterfaceError, NotSupportedError, OperationalError
from nyala.spark.pipelines.reading import csv_scan, raw_files
from nyala.spark.pipelines.reading.csv_rows import csv_rows
from nyala.spark.pipelines.reading.csv_scan import dialect_of, scan_csv
from nyala.spark.pipelines.reading.footers import check_alike, read_footer
from nyala.spark.pipelines.reading.json_rows import is_multi_line, json_rows, scan_json

SMALL = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_csv(place: Path, content: bytes, **options: str) -> tuple[tuple[str, ...], list[tuple[Any, ...]], list[str]]:
    """The columns, rows and malformed records of a file."""
    place.write_bytes(content)
    dialect = dialect_of(options, ",")
    scanned = scan_csv(f"file:{place}", dialect)
    rows: list[tuple[Any, ...]] = []
    bad: list[str] = []
    for span in scanned.spans:
        for batch, malformed in csv_rows(span, scanned.columns, dialect):
            rows += zip(*(column.to_pylist() for column in batch.columns))
            bad += malformed
    return scanned.columns, rows, bad


def read_json(place: Path, content: bytes, multi_line: bool = False) -> tuple[list[dict[str, Any]], list[str]]:
    """The objects of a file as texts, and what is none."""
    place.write_bytes(content)
    scanned = scan_json(f"file:{place}", multi_line, True)
    rows: list[dict[str, Any]] = []
    bad: list[str] = []
    for span in scanned.spans:
        for batch, malformed in json_rows(span, list(scanned.columns), multi_line):
            rows += batch.to_pylist()
            bad += malformed
    return rows, bad


# ---- CSV -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b'id,note\n1,"first\n2,second"\n3,c\n', [("1", "first\n2,second"), ("3", "c")]),
        (b'id,note\r\n1,"a\r\nb"\r\n2,"a\nb"\r\n', [("1", "a\r\nb"), ("2", "a\nb")]),
        (b"id,note\r1,x\r2,y", [("1", "x"), ("2", "y")]),
        (b'id,note\n1,""\n2,\n', [("1", ""), ("2", None)]),
        (b'id,note\n1,"a ""b"""\n2," x "\n3, y \n', [("1", 'a "b"'), ("2", " x "), ("3", " y ")]),
        (b"\xef\xbb\xbfid,note\n\n1,#x\n#2,y\n", [("1", "#x"), ("#2", "y")]),
        (b'\xef\xbb\xbf"id",note\n1,"x\ny"\n', [("1", "x\ny")]),
        (b"id,note\n1,a\x00b\n", [("1", "a\0b")]),
    ],
)
def test_records_of_csv_are_whole(tmp_path: Path, content: bytes, rows: list[tuple[Any, ...]]) -> None:
    assert read_csv(tmp_path / "a.csv", content) == (("id", "note"), rows, [])


def test_an_empty_line_is_a_row_of_one_column_and_none_of_several(tmp_path: Path) -> None:
    assert read_csv(tmp_path / "a.csv", b'v\n1\n\n""\n\n') == (("v",), [("1",), (None,), ("",), (None,)], [])
    assert read_csv(tmp_path / "a.csv", b"v,w\n\n1,2\n\n")[1:] == ([("1", "2")], [])


def test_records_with_other_numbers_of_fields_are_malformed_and_whole(tmp_path: Path) -> None:
    found = read_csv(tmp_path / "a.csv", b'a,b\n1\n"x\ny",2,3\n4,5\n')
    assert found == (("a", "b"), [("4", "5")], ["1", '"x\ny",2,3'])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'a,b\n1,2\n3,"open\n4,5\n', r"a\.csv, line 3: the quote that opens a field here is never closed"),
        (b'a,b\n1,"x\ny"\n3,5" x\n3,"open\n4,5\n', r"a\.csv, line 4: a quote in the middle of a field"),
        (b'a,b\n1,"x"y\n', r"line 2: text behind the quote that closes a field"),
        (b"a,b\n1,x\r\n2,y\n", r"line 2: a carriage return outside of quotes"),
        (b"a,b\n1,x\n2,\xe9\n", r"line 3: byte 0xE9 is no UTF-8 text; .*encoding"),
        (b"a,a\n1,2\n", r"line 1: there are two columns a"),
    ],
)
def test_csv_that_would_lose_something_is_an_error_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_csv(tmp_path / "a.csv", content)


def test_encodings_and_dialects_are_options(tmp_path: Path) -> None:
    place = tmp_path / "a.csv"
    latin = "a,b\n1,é\n".encode("latin-1")
    assert read_csv(place, latin, encoding="ISO-8859-1")[1] == [("1", "é")]
    assert read_csv(place, 'a,b\n1,"é\n€"\n'.encode("utf-16"), charset="UTF-16")[1] == [("1", "é\n€")]
    with pytest.raises(DataError, match="line 2: byte 0x81 is no CP1252 text"):
        read_csv(place, b"a,b\n1,\x81\n", encoding="windows-1252")
    assert read_csv(place, b'a|b\n1|"x\n', sep="|", quote="")[1] == [("1", '"x')]
    assert read_csv(place, b'a,b\n1,"x\\"\ny"\n', escape="\\")[1] == [("1", 'x"\ny')]
    assert read_csv(place, b'a,b\n1,5" disk\n2,"x\n', quote="")[1] == [("1", '5" disk'), ("2", '"x')]
    assert read_csv(place, b"a,b\r\n\r\n1,x\r\n\r\n\r\n2,y", escape="\\")[1] == [("1", "x"), ("2", "y")]
    assert read_csv(place, b"1,NA\n,x\n", header="false", nullValue="NA") == (
        ("_c0", "_c1"), [("1", None), ("", "x")], []
    )  # fmt: skip
    for wrong in ({"encoding": "klingon"}, {"mode": "DROPMALFORMED"}, {"multiLine": "false"}, {"sep": "||"}):
        with pytest.raises(InterfaceError, match=next(iter(wrong))):
            dialect_of(wrong, ",")


def test_compressed_files_are_read_whole(tmp_path: Path) -> None:
    content = b'a,b\n1,"x\ny"\n'
    halves = gzip.compress(content[:9]) + gzip.compress(content[9:])
    for suffix, packed in ((".gz", halves), (".bz2", bz2.compress(content)), (".deflate", zlib.compress(content))):
        assert read_csv(tmp_path / f"a.csv{suffix}", packed)[1] == [("1", "x\ny")]
    with pa.OSFile(str(tmp_path / "a.csv.zst"), "wb") as raw, pa.CompressedOutputStream(raw, "zstd") as out:
        out.write(content)
    assert read_csv(tmp_path / "a.csv.zst", (tmp_path / "a.csv.zst").read_bytes())[1] == [("1", "x\ny")]
    with pytest.raises(OperationalError, match=r"a\.csv\.gz"):
        read_csv(tmp_path / "a.csv.gz", gzip.compress(content)[:-3])
    with pytest.raises(NotSupportedError, match="snappy has a framing"):
        read_csv(tmp_path / "a.csv.snappy", content)


FIELDS = st.one_of(st.none(), st.text(st.sampled_from('a1,"\n\r é '), max_size=6))


def written(rows: list[list[str | None]], end: str, header: list[str], encoding: str) -> bytes:
    """CSV in which NULL is an empty field, and every text is quoted."""
    lines = [",".join("" if v is None else '"' + v.replace('"', '""') + '"' for v in row) for row in rows]
    return end.join([",".join(header), *lines, ""]).encode(encoding)


@SMALL
@given(
    st.integers(1, 3).flatmap(lambda width: st.lists(st.lists(FIELDS, min_size=width, max_size=width), max_size=8)),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 40),
    st.integers(1, 60),
    st.sampled_from(["utf-8", "utf-8-sig", "latin-1", "utf-16"]),
)
def test_what_was_written_is_read_however_it_is_cut(
    tmp_path: Path, rows: list[list[str | None]], end: str, chunk: int, span: int, encoding: str
) -> None:
    """Chunks of a few bytes cut records, line breaks and doubled quotes at every place."""
    header = [f"c{place}" for place in range(len(rows[0]) if rows else 2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(raw_files, "CHUNK_BYTES", chunk)
        patch.setattr(csv_scan, "BLOCK_BYTES", chunk)
        patch.setattr(csv_scan, "SPAN_BYTES", span)
        options = {} if encoding.startswith("utf-8") else {"encoding": encoding}
        found = read_csv(tmp_path / "a.csv", written(rows, end, header, encoding), **options)
    # A row of several NULLs has its separators; so only in files of one column is a row an empty line.
    assert found == (tuple(header), [tuple(row) for row in rows], [])


@SMALL
@given(st.lists(st.lists(st.text(st.sampled_from('a1" é'), max_size=5), min_size=2, max_size=2), max_size=6))
def test_what_python_writes_is_read_as_python_and_duckdb_read_it(tmp_path: Path, rows: list[list[str]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([["a", "b"], *rows])
    place = tmp_path / "a.csv"
    columns, found, bad = read_csv(place, text.getvalue().encode())
    assert (columns, bad) == (("a", "b"), [])
    assert [tuple(value or "" for value in row) for row in found] == [tuple(row) for row in rows]
    if rows:
        same = duckdb.sql(
            f"FROM read_csv('{place}', header=true, all_varchar=true, quote='\"', escape='\"', delim=',')"
        )
        assert [tuple(v or "" for v in row) for row in same.fetchall()] == [tuple(row) for row in rows]


def test_a_file_that_changes_between_the_passes_is_an_error(tmp_path: Path) -> None:
    place = tmp_path / "a.csv"
    place.write_bytes(b"a,b\n1,2\n3,4\n")
    dialect = dialect_of({}, ",")
    scanned = scan_csv(f"file:{place}", dialect)
    place.write_bytes(b"a,b\n1,23\n")
    with pytest.raises(DataError, match="where 2 are"):
        list(csv_rows(scanned.spans[0], scanned.columns, dialect))


# ---- JSON ------------------------------------------------------------------------------------------------------------


def test_json_keeps_digits_and_nested_texts_and_refuses_what_has_no_one_meaning(tmp_path: Path) -> None:
    good = (
        b'\xef\xbb\xbf{"a":1234567890.12345678901234567890,"b":{"x":1, "y":[1.50]}}\n\n'
        b'{"b": "q\\u00e9\\n\\"", "a": NaN}\r\n{"a":null}\n{}'
    )
    rows, bad = read_json(tmp_path / "a.json", good)
    assert not bad and rows == [
        {"a": "1234567890.12345678901234567890", "b": '{"x":1, "y":[1.50]}'},
        {"a": "NaN", "b": 'qé\n"'},
        {"a": None, "b": None},
        {"a": None, "b": None},
    ]
    wrong = [
        '{"a":1,"a":2}', '{"a":{"x":1,"x":2}}', '{"a":1}{"a":2}', '[{"a":1},{"a":2}]', "null", "42", '{"a":1} x',
        '{"a":1,}', "{'a':1}",
    ]  # fmt: skip
    rows, bad = read_json(tmp_path / "a.json", "\n".join([*wrong, '{"a":7}']).encode() + b'\n{"a":"\xe9"}')
    assert rows == [{"a": "7"}] and bad == [*wrong, '{"a":"\\xe9"}']
    rows, bad = read_json(tmp_path / "a.json", b'[{"a":1,\n"b":"x"},\n 5]', multi_line=True)
    assert (rows, bad) == ([{"a": "1", "b": "x"}], ["5"])
    with pytest.raises(InterfaceError, match="samplingRatio"):
        is_multi_line({"samplingRatio": "0.1"})


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=2))


@SMALL
@given(st.lists(st.dictionaries(st.sampled_from(["a", "b", 'q"', "é:"]), VALUES), max_size=6), st.booleans())
def test_objects_come_back_as_texts(tmp_path: Path, objects: list[dict[str, Any]], minified: bool) -> None:
    separators = (",", ":") if minified else None
    content = "\n".join(json.dumps(one, separators=separators, ensure_ascii=False) for one in objects).encode()
    rows, bad = read_json(tmp_path / "a.json", content)
    keys = {key for one in objects for key in one}

    def text(value: Any) -> str | None:
        return value if value is None or isinstance(value, str) else json.dumps(value, separators=separators)

    expected = [{key: text(one.get(key)) for key in keys} for one in objects]
    # A batch without columns has no row count.
    assert not bad and (rows == expected or not keys)


# ---- Parquet ---------------------------------------------------------------------------------------------------------


def test_a_column_that_differs_between_files_is_named_with_both_types(tmp_path: Path) -> None:
    for name, values in (("a", pa.array([1], pa.int32())), ("b", pa.array([1], pa.int64())), ("c", pa.array(["x"]))):
        pq.write_table(pa.table({"id": values}), tmp_path / f"{name}.parquet")
    footers = [read_footer(f"file:{tmp_path}/{name}.parquet") for name in "abc"]
    with pytest.raises(DataError, match=r"b\.parquet: column id is INT64, and in .*a\.parquet column id is INT32"):
        check_alike(footers[:2])
    with pytest.raises(DataError, match=r"c\.parquet: column id is BYTE_ARRAY String"):
        check_alike(footers[::2])
    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"d\.parquet is not a complete Parquet file"):
        read_footer(f"file:{tmp_path}/d.parquet")
