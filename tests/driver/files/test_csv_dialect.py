"""The CSV dialect: nothing is dropped without an error, and what is read is what PostgreSQL, DuckDB and Python read."""

from __future__ import annotations

import csv
import datetime
import decimal
import gzip
import io
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import nyala
import pytest
from examples import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from nyala.bench.postgres import PostgresServer, connect, is_installed
from nyala.errors import DataError, Error, NotNullViolation, StatementError, TextTooLong
from nyala.executor.files import csv_text

pytestmark = pytest.mark.embedded_only("parses files, which is above the Store protocol")

MALFORMED = st.lists(
    st.sampled_from(["a", '"', '""', "\n", ",", "\r\n", "\r", "\\", "\\.", " ", "é", "N", '"a"', ',"', '",', '"\n"']),
    max_size=12,
).map("".join)
DIALECTS: list[tuple[str, dict[str, str]]] = [
    ("", {}),
    ("ESCAPE '\\'", {"escape": "\\"}),
    ("NULL 'N'", {"null": "N"}),
    ("DELIMITER ' ', QUOTE 'a'", {"delimiter": " ", "quote": "a"}),
    ("QUOTE '\\'", {"quote": "\\"}),
]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    with nyala.connect(":memory:", threads=1) as connection:
        yield connection


@pytest.fixture(params=[1 << 20, 16], ids=["large blocks", "small blocks"])
def blocks(request: Any, monkeypatch: Any) -> None:
    """Blocks that end anywhere: in a row, between two quotes, in a line end."""
    monkeypatch.setattr(csv_text, "BLOCK_BYTES", request.param)


def rows_of(database: Any, path: Path, columns: int, options: str = "", kind: str = "STRING") -> list[Any]:
    """Rows that COPY reads from a file without a header, in the file's order."""
    names = ", ".join(f"c{i} {kind}" for i in range(columns))
    database.execute(f"DROP TABLE IF EXISTS t; CREATE TABLE t ({names}, NON UNIQUE PRIMARY KEY ())")
    count = database.execute(f"COPY t FROM '{path}' (HEADER false{options and ', '}{options})").rowcount
    rows = database.execute("SELECT * FROM t").fetchall()
    assert count == len(rows)
    return list(rows)


def copied(database: Any, folder: Path, data: bytes, columns: int = 2, options: str = "") -> list[Any] | str:
    """The rows of these bytes in a file, or the error without the file's name."""
    path = folder / "x.csv"
    path.write_bytes(data)
    try:
        return rows_of(database, path, columns, options)
    except Error as error:
        return str(error).removeprefix(f"{path}, ")


# ---- beside PostgreSQL -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    pytest.importorskip("psycopg")
    if not is_installed():
        pytest.skip("no PostgreSQL server")
    with (
        tempfile.TemporaryDirectory(prefix="nyala-test-") as directory,
        PostgresServer(Path(directory, "home")) as server,
        connect(server.dsn) as connection,
    ):
        yield connection


def postgres_rows(postgres: Any, data: bytes, columns: int, options: str) -> list[Any] | None:
    """Rows that PostgreSQL reads from the same bytes; None if it refuses them."""
    import psycopg

    names = [f"c{i} text" for i in range(columns)]
    cursor = postgres.cursor()
    cursor.execute(f"CREATE TEMPORARY TABLE t ({', '.join(names)})")
    try:
        with cursor.copy(f"COPY t FROM STDIN (FORMAT csv{options and ', '}{options})") as copy:
            copy.write(data)
        found: list[Any] = cursor.execute("SELECT * FROM t").fetchall()
    except psycopg.Error:
        return None
    finally:
        postgres.rollback()
    return found


@pytest.mark.usefixtures("blocks")
@settings(max_examples=examples(250), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=MALFORMED, columns=st.integers(1, 2), dialect=st.sampled_from(DIALECTS))
@example(text='a,"b\na,b\n', columns=2, dialect=DIALECTS[0])
@example(text="a\n\nb\n", columns=1, dialect=DIALECTS[0])
@example(text='""\n\n', columns=1, dialect=DIALECTS[0])
@example(text='a,"\\""\n"\\a",\\\\\n', columns=2, dialect=DIALECTS[1])
@example(text='"",', columns=2, dialect=DIALECTS[0])
@example(text='N,"N"\n', columns=2, dialect=DIALECTS[2])
def test_the_rows_of_postgresql_or_an_error(
    database: Any, postgres: Any, folder: Path, text: str, columns: int, dialect: Any
) -> None:
    options, _ = dialect
    found = copied(database, folder, text.encode(), columns, options)
    if isinstance(found, str):
        assert found.startswith("line ")
        return
    if "\\." in text:  # the end of the file before PostgreSQL 18
        return
    expected = postgres_rows(postgres, text.encode(), columns, options)
    # An empty line is no row of several fields here and in DuckDB, and an error in PostgreSQL.
    assert found == expected or (expected is None and columns > 1 and "" in re.split(r"\r\n|\r|\n", text)[:-1])


# ---- there and back ----------------------------------------------------------------------------------------------

TEXT = st.text(st.sampled_from(list("a\"',;|\\\n\r \tNé\U0001f40e.#\x00")), max_size=6)
VALUES: dict[str, Any] = {
    "STRING": TEXT,
    "TINYINT": st.integers(-128, 127),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "DECIMAL(5,2)": st.decimals(-999, 999, places=2),
    "DECIMAL(38,10)": st.decimals(-(10**27), 10**27, places=10),
    "BOOLEAN": st.booleans(),
    "DATE": st.dates(),
    "TIMESTAMP": st.datetimes(),
    "BINARY": st.binary(max_size=6),
}


@st.composite
def tables(draw: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    cells = [st.none() | VALUES[type_] for type_ in types]
    return types, draw(st.lists(st.tuples(*cells), max_size=8))


WAYS_OUT = [
    ("", "header => true"),
    ("HEADER false", "header => false"),
    ("HEADER, NULL 'N', DELIMITER ';'", "null => 'N', delim => ';'"),
    ("ESCAPE '\\', QUOTE ''''", "escape => '\\', quote => ''''"),
]


@pytest.mark.usefixtures("blocks")
@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables(), way=st.sampled_from(WAYS_OUT))
@example(table=(["STRING"], [("a",), (None,), ("",), (None,)]), way=WAYS_OUT[0])
@example(table=(["BIGINT"], [(None,), (1,), (None,)]), way=WAYS_OUT[1])
@example(table=(["STRING"], [("\\.",), ("a",)]), way=WAYS_OUT[0])
@example(table=(["BINARY"], [(b"\\x61",), (b"",), (None,), (b"\xff",)]), way=WAYS_OUT[3])
def test_every_table_comes_back(database: Any, folder: Path, table: Any, way: Any) -> None:
    types, rows = table
    names = [f"c{i}" for i in range(len(types))]
    columns = ", ".join(f"{n} {t}" for n, t in zip(names, types))
    path = folder / "out.csv"
    for name in ("t", "u"):
        database.execute(f"DROP TABLE IF EXISTS {name}")
        database.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, {columns})")
    marks = ", ".join("?" for _ in range(len(types) + 1))
    database.executemany(f"INSERT INTO t VALUES ({marks})", [(i, *row) for i, row in enumerate(rows)])
    expected = database.execute(f"SELECT {', '.join(names)} FROM t ORDER BY k").fetchall()
    query = f"SELECT {', '.join(names)} FROM t ORDER BY k"
    assert database.execute(f"COPY ({query}) TO '{path}' ({way[0] or 'HEADER'})").rowcount == len(rows)
    database.execute(f"DROP TABLE u; CREATE TABLE u ({columns}, NON UNIQUE PRIMARY KEY ())")
    options = way[0] or "HEADER"
    assert database.execute(f"COPY u ({', '.join(names)}) FROM '{path}' ({options})").rowcount == len(rows)
    assert database.execute("SELECT * FROM u").fetchall() == expected
    if rows:
        texts = database.execute(f"SELECT * FROM read_csv('{path}', all_varchar => true, {way[1]})").fetchall()
        assert [[v is None for v in row] for row in texts] == [[v is None for v in row] for row in expected]


def test_texts_that_spell_bytes(database: Any, folder: Path, postgres: Any) -> None:
    data = b'\\x6162\n\\x61 62\n\\x\n"a\\000\\\\"\n\xc3\xa9\n""\n\nplain\n'
    path = folder / "b.csv"
    path.write_bytes(data)
    found = rows_of(database, path, 1, kind="BINARY")
    assert found == [(v,) for v in (b"ab", b"ab", b"", b"a\0\\", b"\xc3\xa9", b"", None, b"plain")]
    cursor = postgres.cursor()
    cursor.execute("CREATE TEMPORARY TABLE b (v bytea, n serial)")
    with cursor.copy("COPY b (v) FROM STDIN (FORMAT csv)") as copy:
        copy.write(data)
    assert cursor.execute("SELECT v FROM b ORDER BY n").fetchall() == found
    database.execute(f"COPY t TO '{path}' (HEADER false)")
    with cursor.copy("COPY (SELECT v FROM b ORDER BY n) TO STDOUT (FORMAT csv)") as copy:
        assert path.read_bytes() == b"".join(copy)
    postgres.rollback()
    query = f"SELECT CAST(column1 AS BINARY) FROM read_csv('{path}', header => false)"
    assert database.execute(query).fetchall() == found
    path.write_bytes(b"c0\n" + path.read_bytes())
    database.execute("TRUNCATE TABLE t")
    database.load("t", str(path))
    assert database.execute("SELECT * FROM t").fetchall() == found
    path.write_bytes(b"\\x61\na\\b\n")
    with pytest.raises(DataError, match=r"line 2, column c0: 'a\\\\b' is no BINARY"):
        rows_of(database, path, 1, kind="BINARY")


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.integers(1, 3).flatmap(
        lambda n: st.lists(st.tuples(*[st.none() | TEXT.filter(lambda t: "\0" not in t)] * n), min_size=1, max_size=6)
    )
)
def test_duckdb_and_python_read_what_is_written(database: Any, folder: Path, rows: Any) -> None:
    names = [f"c{i}" for i in range(len(rows[0]))]
    database.execute(
        f"DROP TABLE IF EXISTS t; CREATE TABLE t (k INT PRIMARY KEY, {', '.join(f'{n} STRING' for n in names)})"
    )
    database.table("t").insert([(i, *row) for i, row in enumerate(rows)])
    path = folder / "out.csv"
    database.execute(f"COPY (SELECT {', '.join(names)} FROM t ORDER BY k) TO '{path}'")
    with path.open(newline="", encoding="utf-8") as file:
        header, *found = [row or [""] for row in csv.reader(file, strict=True)]
    assert header == names
    assert [tuple(row) for row in found] == [tuple(v or "" for v in row) for row in rows]
    columns = ", ".join(f"'{n}': 'VARCHAR'" for n in names)
    query = (
        f"SELECT * FROM read_csv('{path}', header = true, columns = {{{columns}}}, delim = ',', quote = '\"', "
        "escape = '\"', new_line = '\\n', allow_quoted_nulls = false, auto_detect = false, parallel = false)"
    )
    with duckdb.connect() as other:
        assert other.execute(query).fetchall() == rows


@pytest.mark.usefixtures("blocks")
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(TEXT, TEXT), max_size=6), end=st.sampled_from(["\n", "\r\n"]), last=st.booleans())
def test_what_python_writes_is_read(database: Any, folder: Path, rows: Any, end: str, last: bool) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(rows)
    data = text.getvalue() if last else text.getvalue().removesuffix(end)
    assert copied(database, folder, data.encode()) == rows


# ---- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'1,a\n2,"abc\n3,x\n4,y\n', "line 2: the quote that opens a field here is never closed"),
        (b'1,a\n2,"a""\n\n3,x\n4,y', "line 2: the quote that opens a field here is never closed"),
        (b'1,"two\nlines"\n2,a"b\n', "line 3: a quote in the middle of a field"),
        (b'1,a""\n', "line 1: a quote in the middle of a field"),
        (b'1,"a"b\n', "line 1: text behind the quote that closes a field"),
        (b'1,"a" \n', "line 1: text behind the quote that closes a field"),
        (b'1,"\n\n"\n2\n3,a\n', "line 4: expected 2 columns, got 1"),
        (b"1,a\n\n2,b,c\n", "line 3: expected 2 columns, got 3"),
        (b"1,a\n2,b\r\n", "line 2: a carriage return outside of quotes"),
        (b"1,a\r\n2,b\n3,c\r\n", "line 2: a line feed outside of quotes"),
        (b"1,a\r2,b\n", "line 2: a line feed outside of quotes"),
        (b"1,a\n2,b\rc\n", "line 2: a carriage return outside of quotes"),
        (b"1,a\n2,\xe9\n", "line 2: byte 0xE9 is no UTF-8 text; name its encoding, such as ENCODING 'latin1'"),
    ],
)
def test_mistakes_are_told_with_their_line(database: Any, folder: Path, data: bytes, message: str) -> None:
    found = copied(database, folder, data)
    assert isinstance(found, str)
    assert found.startswith(message)


@pytest.mark.parametrize("name", ["utf-16", "utf-16-be", "utf-32"])
def test_other_encodings(database: Any, folder: Path, name: str) -> None:
    text = "1,é\n2,\U0001f40e\n"
    data = ("\ufeff" if name.endswith("e") else "") + text
    with pytest.raises(DataError, match=r"is UTF-(16|32), not UTF-8; read it with ENCODING 'utf-(16|32)'"):
        path = folder / "x.csv"
        path.write_bytes(data.encode(name))
        rows_of(database, path, 2)
    assert copied(database, folder, data.encode(name), 2, f"ENCODING '{name}'") == [("1", "é"), ("2", "\U0001f40e")]
    assert copied(database, folder, b"1,\xe9\n", 2, "ENCODING latin1") == [("1", "é")]
    assert copied(database, folder, b"1,\x80\n", 2, "ENCODING 'WIN1252'") == [("1", "€")]
    refused = copied(database, folder, b"1,a\n2,\x81\n", 2, "ENCODING 'WIN1252'")
    assert refused == "line 2: byte 0x81 is no CP1252 text"


def test_headers(database: Any, folder: Path) -> None:
    database.execute("DROP TABLE IF EXISTS h; CREATE TABLE h (k INT PRIMARY KEY, s STRING)")
    path = folder / "h.csv"
    for data, expected in (
        (b"\xef\xbb\xbfs,K\na,1\n", [(1, "a")]),
        (b'"k"\r\n1\r\n', [(1, None)]),
        (b"k,s", []),
        (b"k,s,k\n1,a,2\n", "has column k twice"),
        (b"k,t\n1,a\n", "column t of"),
        (b"\n1,a\n", "line 1: the header is empty"),
        (b"k\0,\0s\0\n\0", "the header has a NUL character"),
        (b"", "is empty"),
    ):
        path.write_bytes(data)
        database.execute("TRUNCATE TABLE h")
        if isinstance(expected, str):
            with pytest.raises(Error, match=expected):
                database.execute(f"COPY h FROM '{path}'")
        else:
            database.execute(f"COPY h FROM '{path}'")
            assert database.execute("SELECT * FROM h").fetchall() == expected


def test_a_field_longer_than_many_blocks(database: Any, folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(csv_text, "BLOCK_BYTES", 100)
    long = 'x,"\n' * 10_000
    data = f'1,"{long.replace(chr(34), chr(34) * 2)}"\n2,b\n'.encode()
    assert copied(database, folder, data) == [("1", long), ("2", "b")]
    monkeypatch.setattr(csv_text, "MOST_ROW_BYTES", 1000)
    assert copied(database, folder, data) == "line 1: the row that begins here is longer than 0 MiB; is a quote open?"


@pytest.mark.parametrize("compression", ["gz", "zst"])
def test_compressed_files_that_were_cut_off(database: Any, folder: Path, compression: str) -> None:
    database.execute("DROP TABLE IF EXISTS h; CREATE TABLE h (k INT PRIMARY KEY, s STRING)")
    database.execute("INSERT INTO h SELECT value, 'text' FROM generate_series(1, 5000) AS g (value)")
    path = folder / f"x.csv.{compression}"
    database.execute(f"COPY h TO '{path}'")
    database.execute("TRUNCATE TABLE h")
    whole = path.read_bytes()
    for data in (whole[:-3], whole[: len(whole) // 2], whole + b"more", b"k,s\n1,a\n"):
        path.write_bytes(data)
        with pytest.raises(DataError, match="cannot be read"):
            database.execute(f"COPY h FROM '{path}'")
    assert database.execute("SELECT count(*) FROM h").fetchone() == (0,)
    path.write_bytes(whole + (gzip.compress(b"7000,x\n") if compression == "gz" else b""))
    assert database.execute(f"COPY h FROM '{path}'").rowcount == 5000 + (compression == "gz")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("DELIMITER '\"'", "the options delimiter and quote are both"),
        ("DELIMITER '\\', ESCAPE '\\'", "the options delimiter and escape are both"),
        ("DELIMITER ';;'", "exactly one character"),
        ("DELIMITER '\n'", "no line end"),
        ("NULL 'a,b'", "holds the delimiter"),
        ("NULL '\"'", "holds the quote"),
        ("NULL 'a\nb'", "no line end"),
        ("ENCODING 'klingon'", "there is no encoding klingon"),
        ("ENCODING 'zlib'", "there is no encoding zlib"),
        ("COMPRESSION snappy", "the compression of a CSV file is zstd, gzip or none"),
    ],
)
def test_options_that_contradict_each_other(database: Any, folder: Path, options: str, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        rows_of(database, folder / "x.csv", 2, options)


# ---- values ------------------------------------------------------------------------------------------------------

MOMENT = datetime.datetime(2024, 1, 31, 22, 0)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("INT", "+1", 1),
        ("INT", " 7 ", 7),
        ("INT", "007", 7),
        ("INT", "1.0", "'1.0' is no INT"),
        ("INT", "0x1F", "'0x1F' is no INT"),
        ("INT", '""', "'' is no INT"),
        ("TINYINT", "128", "'128' is no TINYINT"),
        ("DOUBLE", "1e400", "'1e400' is no DOUBLE"),
        ("DOUBLE", "-Infinity", float("-inf")),
        ("FLOAT", "1e39", "'1e39' is no FLOAT"),
        ("DECIMAL(9,2)", "99999999", "'99999999' is no DECIMAL"),
        ("DECIMAL(9,2)", "-9999999.99", decimal.Decimal("-9999999.99")),
        ("DECIMAL(9,2)", "1.234", "rescaling Decimal value would cause data loss: '1.234'"),
        ("BOOLEAN", " Yes", True),
        ("DATE", "2024-1-31", datetime.date(2024, 1, 31)),
        ("DATE", "0000-01-01", "'0000-01-01' is no DATE"),
        ("TIMESTAMP", "0000-01-01", "'0000-01-01' is no TIMESTAMP"),
        ("TIMESTAMP", "2024-01-31T22:00:00Z", MOMENT),
        ("TIMESTAMP", "2024-02-01 00:00:00+02:00", MOMENT),
        ("TIMESTAMP", "2024-01-31 22:00", MOMENT),
        ("TIMESTAMP", "2024-01-31T22:00:00.000000999Z", MOMENT),
    ],
)
@pytest.mark.parametrize("others", [False, True], ids=["alone", "among usual ones"])
def test_values_are_those_of_quoted_literals(
    database: Any, folder: Path, kind: str, text: str, expected: Any, others: bool
) -> None:
    usual = {"BOOLEAN": "true", "DATE": "2020-01-01", "TIMESTAMP": "2020-01-01 00:00:00"}.get(kind, "1")
    data = f"{usual}\n{text}\n{usual}\n" if others else f"{text}\n"
    path = folder / "x.csv"
    path.write_text(data)
    if isinstance(expected, str):
        with pytest.raises(DataError, match=re.escape(f"line {1 + others}, column c0: {expected}")):
            rows_of(database, path, 1, "", kind)
    else:
        assert rows_of(database, path, 1, "", kind)[int(others)] == (expected,)


@pytest.mark.parametrize(
    ("values", "kind", "first"),
    [
        (["007", "12"], "STRING", "007"),
        (["1", "+2"], "STRING", "1"),
        (["+4930123"], "STRING", "+4930123"),
        (["0x1F"], "STRING", "0x1F"),
        (["12:30"], "STRING", "12:30"),
        (["-", "1"], "STRING", "-"),
        (["1", "-2", "0"], "BIGINT", 1),
        (["1", "12345678901234567890"], "DECIMAL(38,0)", decimal.Decimal(1)),
        (["1.5", "1e5", "nan"], "DOUBLE", 1.5),
        (["1e400"], "STRING", "1e400"),
        (["true", "false"], "BOOLEAN", True),
        (["2024-01-31"], "DATE", datetime.date(2024, 1, 31)),
        (["0000-01-31"], "STRING", "0000-01-31"),
        (["2024-01-31T22:00:00Z", "2024-02-01 00:00:00+02:00"], "TIMESTAMP", MOMENT),
        (["1600-01-01 00:00:00.5"], "TIMESTAMP", datetime.datetime(1600, 1, 1, 0, 0, 0, 500000)),
        (["2024-01-31T22:00:00.123456789"], "TIMESTAMP", MOMENT.replace(microsecond=123456)),
        (["", ""], "STRING", None),
    ],
)
def test_guessed_types_keep_what_is_written(database: Any, folder: Path, values: Any, kind: str, first: Any) -> None:
    path = folder / "g.csv"
    path.write_text("a,b\n" + "".join(f"{value},x\n" for value in values))
    cursor = database.execute(f"SELECT a FROM read_csv('{path}')")
    assert str(cursor.description[0][1]).startswith(kind.partition("(")[0])
    assert cursor.fetchone() == (first,)


def test_rows_that_the_table_refuses_are_told_with_their_line(database: Any, folder: Path) -> None:
    path = folder / "x.csv"
    database.execute("DROP TABLE IF EXISTS h; CREATE TABLE h (k INT PRIMARY KEY, s VARCHAR(3))")
    for data, error, message in (
        ('k,s\n1,"a\nb"\n,b\n', NotNullViolation, "line 4: NULL in column k of table h, which is NOT NULL"),
        ("k,s\n1,abc\n2,abcd\n", TextTooLong, "line 3: a text of 4 characters is too long"),
    ):
        path.write_text(data)
        with pytest.raises(error, match=message):
            database.execute(f"COPY h FROM '{path}'")
