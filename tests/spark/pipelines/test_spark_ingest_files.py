"""Ingest takes all that files hold, or says what it cannot take: sets of files that differ, texts that Spark's casts
would change, expressions that fail."""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import nyala
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nyala.driver.connection import Connection
from nyala.errors import DataError, InterfaceError, NotSupportedError, OperationalError
from nyala.spark.pipelines.export import export
from nyala.spark.pipelines.ingest import ingest
from nyala.spark.pipelines.ingest_plan import NewTable
from nyala.spark.pipelines.jobs import reason
from spark_session import setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def store(place: Path) -> Iterator[Connection]:
    with nyala.connect(place / "store") as connection:
        yield connection


def folder(place: Path, name: str, files: dict[str, Any]) -> Path:
    """A directory of files: texts, bytes, or tables, which become Parquet."""
    made = place / name
    for file, content in files.items():
        path = made / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, pa.Table):
            pq.write_table(content, path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return made


def rows_of(store: Connection, table: str) -> list[tuple[Any, ...]]:
    return store.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()


# ---- sets of files ---------------------------------------------------------------------------------------------------


def test_columns_of_all_files_are_columns_of_the_source(spark: SparkSession, place: Path, store: Connection) -> None:
    """Spark by itself uses the columns of the first Parquet file, and requires equal headers of CSV files."""
    ids = [pa.array([place], pa.int32()) for place in (1, 2)]
    sets = {
        "parquet": {"a.parquet": pa.table({"id": ids[0]}), "b.parquet": pa.table({"v": [2.5], "id": ids[1]})},
        "csv": {"a.csv": "id\n1\n", "b.csv": "v,id\n2.5,2\n", "c.csv": ""},
        "json": {"a.json": '{"id":1}\n', "b.json": '{"id":2,"v":2.5}\n'},
    }
    for format, files in sets.items():
        source = folder(place, f"union_{format}", files)
        store.execute(f"CREATE TABLE union_{format} (id INT PRIMARY KEY, v DOUBLE)")
        ingest(spark, source, place / "store", f"union_{format}")
        assert rows_of(store, f"union_{format}") == [(1, None), (2, 2.5)]
        store.execute(f"CREATE TABLE lacks_{format} (id INT PRIMARY KEY)")
        with pytest.raises(InterfaceError, match="column v of the source is not mapped"):
            ingest(spark, source, place / "store", f"lacks_{format}")
        ingest(spark, source, place / "store", f"lacks_{format}", skip=["v"])
        assert rows_of(store, f"lacks_{format}") == [(1,), (2,)]


def test_files_that_cannot_go_together_are_named(spark: SparkSession, place: Path, store: Connection) -> None:
    store.execute("CREATE TABLE apart (id INT PRIMARY KEY)")

    def refused(kind: type[Exception], match: str, source: Path, **more: Any) -> None:
        with pytest.raises(kind, match=match):
            ingest(spark, source, place / "store", "apart", **more)

    types = {"a.parquet": pa.table({"id": [1]}), "b.parquet": pa.table({"id": ["x"]})}
    refused(DataError, r"b\.parquet: column id is BYTE_ARRAY", folder(place, "types", types))
    refused(DataError, "not a complete Parquet file", folder(place, "torn", {"a.parquet": b"PAR1"}))
    refused(
        InterfaceError, r"sub: the files of this", folder(place, "deep", {"a.csv": "id\n1\n", "sub/b.csv": "id\n2\n"})
    )
    refused(InterfaceError, r"b\.json: .* not a csv", folder(place, "mixed", {"a.csv": "id\n1\n", "b.json": "{}"}))
    refused(DataError, "never closed", folder(place, "open", {"a.csv": 'id\n"1\n'}))
    refused(OperationalError, "nothing to read", folder(place, "none", {"_a.csv": "id\n1\n"}), format="csv")
    refused(OperationalError, r"PATH_NOT_FOUND", place / "absent.csv")
    refused(InterfaceError, "ignoreCorruptFiles", place / "types", options={"ignoreCorruptFiles": "true"})
    assert rows_of(store, "apart") == []
    ingest(spark, place / "deep", place / "store", "apart", options={"recursiveFileLookup": "true"})
    assert rows_of(store, "apart") == [(1,), (2,)]


def test_partition_directories_keep_their_texts(spark: SparkSession, place: Path, store: Connection) -> None:
    files = {f"code={code}/a": number for number, code in enumerate(["001", "a%2Fb", "__HIVE_DEFAULT_PARTITION__"])}
    for format in ("parquet", "csv", "json"):
        content = {
            "parquet": lambda id: pa.table({"id": pa.array([id], pa.int32())}),
            "csv": lambda id: f"id\n{id}\n",
            "json": lambda id: f'{{"id":{id}}}\n',
        }[format]
        source = folder(place, f"hive_{format}", {f"{name}.{format}": content(id) for name, id in files.items()})
        store.execute(f"CREATE TABLE hive_{format} (id INT PRIMARY KEY, code STRING)")
        with setting(spark, "spark.sql.sources.partitionColumnTypeInference.enabled", "true"):
            ingest(spark, source, place / "store", f"hive_{format}")
            assert spark.conf.get("spark.sql.sources.partitionColumnTypeInference.enabled") == "true"
        assert rows_of(store, f"hive_{format}") == [(0, "001"), (1, "a/b"), (2, None)]


def test_generated_sets_of_files_lose_nothing(spark: SparkSession, place: Path, store: Connection) -> None:
    """Files with some of the columns each, in any order, in directories whose names have leading zeros, of texts with
    line breaks, quotes and NULLs; CSV in Latin-1."""
    import random

    rng = random.Random(7)
    texts = [None, "", "a", 'q"', "x\ny", "é,", " s ", "\\", "007"]
    files: dict[str, list[dict[str, Any]]] = {}
    for number in range(6):
        # Of the first file a column is missing that later ones have.
        names = ["id", *rng.sample(["a", "b", "c"], rng.randint(1, 2 if number == 0 else 3))]
        rng.shuffle(names)
        files[f"code={number % 3:03}/part{number}"] = [
            {name: str(100 * number + row) if name == "id" else rng.choice(texts) for name in names}
            for row in range(rng.randint(1, 9))
        ]
    expected = sorted((r["id"], *(r.get(n) for n in "abc"), f[5:8]) for f, rows in files.items() for r in rows)
    readers = {"csv": "read_csv(?, all_varchar=true, union_by_name=true, header=true, encoding='latin-1', {})"}
    readers["parquet"] = "read_parquet(?, union_by_name=true, {})"
    readers["json"] = (
        "read_json(?, union_by_name=true, columns={{id:'VARCHAR',a:'VARCHAR',b:'VARCHAR',c:'VARCHAR'}}, {})"
    )
    for format, reader in readers.items():
        content = {f"{name}.{format}": written(rows, format) for name, rows in files.items()}
        source = folder(place, f"generated_{format}", content)
        store.execute(
            f"CREATE TABLE generated_{format} (id STRING PRIMARY KEY, a STRING, b STRING, c STRING, code STRING)"
        )
        if format == "csv":
            with pytest.raises(DataError, match=r"byte 0xE9 is no UTF-8 text; .*encoding"):
                ingest(spark, source, place / "store", "generated_csv")
        options = {"encoding": "ISO-8859-1"} if format == "csv" else {}
        ingest(spark, source, place / "store", f"generated_{format}", options=options)
        assert rows_of(store, f"generated_{format}") == expected
        if format != "json":  # DuckDB gives no columns of directories where columns are declared
            hive = reader.format("hive_partitioning=true, hive_types_autocast=false")
            same = duckdb.execute(f"SELECT id, a, b, c, code FROM {hive} ORDER BY 1", [f"{source}/*/*"]).fetchall()
            # Of CSV, DuckDB takes a quoted empty text for NULL, too.
            assert [[v or None for v in row] for row in same] == [[v or None for v in row] for row in expected]


def written(rows: list[dict[str, Any]], format: str) -> str | bytes | pa.Table:
    if format == "parquet":
        return pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in rows[0]]))
    if format == "json":
        return "".join(json.dumps(row) + "\n" for row in rows)
    lines = [",".join("" if v is None else '"' + v.replace('"', '""') + '"' for v in row.values()) for row in rows]
    return "\n".join([",".join(rows[0]), *lines, ""]).encode("latin-1")


# ---- values ----------------------------------------------------------------------------------------------------------


def test_texts_that_a_cast_would_change_are_bad_rows(spark: SparkSession, place: Path, store: Connection) -> None:
    store.execute("CREATE TABLE texts (k INT PRIMARY KEY, d DATE, t TIMESTAMP, f FLOAT, x DOUBLE)")
    good = [
        "1,2020-01-02,2020-01-02 03:04:05.123456,1.5,1e300",
        "2,2020-1-2,2020-01-02T03:04:05.1234560+01:00,inf,-inf",
    ]
    bad = {
        "3,2020-01-02T10:00:00,,,": "column d: not a value of DATE",
        "4,2020,,,": "column d: not a value of DATE",
        "5,,10:00,,": "column t: not a value of TIMESTAMP",
        "6,,2020-01-02 03:04:05.1234567,,": "column t: finer than a microsecond",
        "7,,,1e39,": "column f: out of range of FLOAT",
        "8,,,,1e400": "column x: out of range of DOUBLE",
        "9,,,,1.5d": "column x: not a value of DOUBLE",
        "1.5,,,,": "column k: not a value of INT",
        "99999999999,,,,": "column k: not a value of INT",
    }
    source = place / "texts.csv"
    source.write_text("\n".join(["k,d,t,f,x", *good, *bad, ""]))
    result = ingest(spark, source, place / "store", "texts", rejects=place / "texts.jsonl")
    rejected = [json.loads(line) for line in (place / "texts.jsonl").read_text().splitlines()]
    assert {next(iter(row["row"].values())): row["reason"] for row in rejected} == {
        line.partition(",")[0]: why for line, why in bad.items()
    }
    assert result.written == 2 and rows_of(store, "texts")[1][:3] == (
        2, datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, 2, 4, 5, 123456)
    )  # fmt: skip


def test_types_none_of_whose_values_fit_are_refused(spark: SparkSession, place: Path, store: Connection) -> None:
    store.execute("CREATE TABLE kinds (k INT PRIMARY KEY, t TIMESTAMP, d DATE)")
    millis = spark.createDataFrame([(1, 1_600_000_000_000)], "k int, t long")
    with pytest.raises(
        NotSupportedError, match=r"column t: a bigint cannot become TIMESTAMP; say how.*timestamp_millis"
    ):
        ingest(spark, millis, place / "store", "kinds")
    ingest(spark, millis, place / "store", "kinds", mapping={"t": "timestamp_millis(t)"})
    assert rows_of(store, "kinds")[0][1] == datetime.datetime(2020, 9, 13, 12, 26, 40)
    days = spark.sql("SELECT 2 AS k, timestamp'2020-01-01 10:00:00' AS d")
    with pytest.raises(DataError, match="has a time of day"):
        ingest(spark, days, place / "store", "kinds")


def test_a_table_that_is_made_of_texts_keeps_what_they_say(spark: SparkSession, place: Path, store: Connection) -> None:
    names = "id,zip,phone,n,big,x,fine,huge,day,at,ok,none,mixed"
    rows = [
        "1,01234,+49301,7,3000000000,1.5,0.1234567890123456789,123456789012345678901,2020-01-02,2020-01-02T03:04:05Z,true,,1",
        "2,98101,+1,-8,1,1e-3,2.5,1,2020-01-03,2020-01-03,false,,x",
    ]
    source = place / "made.csv"
    source.write_text("\n".join([names, *rows, ""]))
    ingest(spark, source, place / "store", "made", create=NewTable(["id"]))
    types = {column.name: str(column.type) for column in store.store.table("made").schema.columns}
    assert types == {
        "id": "INT", "zip": "STRING", "phone": "STRING", "n": "INT", "big": "BIGINT", "x": "DOUBLE",
        "fine": "DECIMAL(20,19)", "huge": "DECIMAL(38,0)", "day": "DATE", "at": "TIMESTAMP", "ok": "BOOLEAN",
        "none": "STRING", "mixed": "STRING",
    }  # fmt: skip
    first = rows_of(store, "made")[0]
    assert first[1] == "01234" and first[6] == decimal.Decimal("0.1234567890123456789")
    (place / "made.json").write_text('{"id":1,"a":"007","b":1.25,"c":{"x":1},"d":1}\n{"id":2,"d":"x"}\n')
    ingest(spark, place / "made.json", place / "store", "made_json", create=NewTable(["id"]))
    assert rows_of(store, "made_json") == [(1, "007", 1.25, '{"x":1}', "1"), (2, None, None, None, "x")]


def test_an_expression_that_fails_makes_a_bad_row(spark: SparkSession, place: Path, store: Connection) -> None:
    store.execute("CREATE TABLE mapped (id INT PRIMARY KEY, at TIMESTAMP, q INT)")
    source = place / "mapped.csv"
    source.write_text("id,time,d\n1,2020-01-01 10:00:00,5\n2,noon,5\n3,,0\n4,,\n")
    mapping = {"at": "to_timestamp(time)", "q": "10 div cast(d AS int)"}
    with setting(spark, "spark.sql.ansi.enabled", "false"):
        result = ingest(spark, source, place / "store", "mapped", mapping=mapping, rejects=place / "mapped.jsonl")
    assert result.rejected == {
        "column at: to_timestamp(time) cannot be computed of the row": 1,
        "column q: 10 div cast(d AS int) cannot be computed of the row": 1,
    }
    assert rows_of(store, "mapped") == [(1, datetime.datetime(2020, 1, 1, 10), 2), (4, None, None)]
    store.execute("DELETE FROM mapped")
    with pytest.raises(DataError, match=r"one of them: /.*mapped\.csv, column (at|q): .*\"id\":\"[23]\""):
        ingest(spark, source, place / "store", "mapped", mapping=mapping)


def test_names_with_dots_and_quotes_are_names(spark: SparkSession, place: Path, store: Connection) -> None:
    store.execute('CREATE TABLE dotted ("a.b" INT PRIMARY KEY, "c`d" STRING) DISTRIBUTE BY HASH ("a.b") INTO 2 BUCKETS')
    (place / "dotted.csv").write_text("a.b,c`d\n1,x\n1,y\nz,w\n2,v\n")
    result = ingest(spark, place / "dotted.csv", place / "store", "dotted", rejects=place / "dotted.jsonl")
    assert sum(result.rejected.values()) == 2 and rows_of(store, "dotted") == [(1, "x"), (2, "v")]
    rejected = [json.loads(line)["row"] for line in (place / "dotted.jsonl").read_text().splitlines()]
    assert sorted(row["c`d"] for row in rejected) == ["w", "y"]


def test_one_column_of_csv_keeps_its_nulls_and_line_breaks(spark: SparkSession, place: Path, store: Connection) -> None:
    store.execute("CREATE TABLE one (k INT PRIMARY KEY, s STRING)")
    values = [None, "", "a\r\nb", 'q"', None, " "]
    store.table("one").insert(list(enumerate(values)))
    export(spark, place / "store", "one", place / "one.csv", columns=["s"])
    store.execute("CREATE TABLE again (k STRING PRIMARY KEY, s STRING)")
    ingest(spark, place / "one.csv", place / "store", "again", mapping={"k": "uuid()"})
    found = [row[1] for row in rows_of(store, "again")]
    assert sorted(found, key=str) == sorted(values, key=str)


def test_java_errors_are_told_in_one_line() -> None:
    text = (
        "An error occurred while calling o7.save.\n: org.apache.spark.SparkException: Job aborted\n\tat x(Y.java:1)\n"
    )
    text += "Caused by: org.apache.spark.sql.X$YException: [CODE] file:/a.parquet, column: [id]\n\tat z(Z.java:2)\n"
    assert reason(ValueError(text)) == "[CODE] file:/a.parquet, column: [id]"
