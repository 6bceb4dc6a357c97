"""Pipelines on Spark: files into tables and out of them."""

import datetime
import decimal
import io
import json
from collections import Counter

import nyala
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from nyala.__main__ import main
from nyala.backup.running import Progress
from nyala.cli.spark_command import Reporter
from nyala.errors import AlreadyPresent, DataError, InterfaceError, NotNullViolation, UnknownColumn
from nyala.model.partitions.partition import Partitioner
from nyala.spark.pipelines.export import export
from nyala.spark.pipelines.ingest import ingest
from nyala.spark.pipelines.ingest_plan import TabletOf, matched, plan_of
from nyala.spark.pipelines.jobs import reason, run_tasks
from nyala.spark.pipelines.key_order import is_in_key_order
from nyala.spark.pipelines.sources import format_of, of_frame
from nyala.spark.writing.operations import Operation


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("pipelines")


@pytest.fixture(scope="module")
def store(place):
    with nyala.connect(place / "store") as connection:
        yield connection


# ---- without Spark ---------------------------------------------------------------------------------------------------


def test_columns_are_matched_by_mapping_and_name_and_none_is_lost_in_silence():
    table = ["k", "v", "w"]
    assert matched(["K", "v"], table, {}, []) == {"k": "`K`", "v": "`v`"}
    assert matched(["a", "b"], table, {"k": "a", "w": "upper(B)"}, []) == {"k": "`a`", "w": "upper(B)"}
    assert matched(["k", "v", "x"], table, {"v": "'const'"}, ["x"]) == {"k": "`k`", "v": "'const'"}
    with pytest.raises(InterfaceError, match="--skip x"):
        matched(["k", "x"], table, {}, [])
    with pytest.raises(InterfaceError, match="two columns"):
        matched(["k", "K"], table, {}, [])
    with pytest.raises(UnknownColumn, match="map to"):
        matched(["k"], table, {"q": "k"}, [])
    with pytest.raises(UnknownColumn, match="skip"):
        matched(["k"], table, {}, ["q"])


def test_formats_are_told_by_names_and_key_order_by_footers(tmp_path, store):
    assert [format_of(n) for n in ("a.csv", "x/*.jsonl.gz", "b.PARQUET")] == ["csv", "json", "parquet"]
    with pytest.raises(InterfaceError, match="--format"):
        format_of("nothing")
    store.execute("CREATE TABLE IF NOT EXISTS ordered (k INT PRIMARY KEY)")

    class IngestPlan:
        key = ("k",)

    for name, values, expected in (("up", range(100), True), ("down", range(100, 0, -1), False)):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"k": pa.array(values, pa.int32())}), tmp_path / name / "a.parquet", row_group_size=10)
        assert is_in_key_order(str(tmp_path / name), None, IngestPlan) is expected
    assert not is_in_key_order(str(tmp_path / "*.csv"), None, IngestPlan)


def test_the_tablet_of_a_key_is_the_partitioners(store):
    store.execute(
        "CREATE TABLE placed (k INT, t TIMESTAMP, v INT, PRIMARY KEY (k, t)) DISTRIBUTE BY HASH (k) INTO 3 BUCKETS, "
        "RANGE (t) (PARTITION VALUES < '2000-01-01', PARTITION '2000-01-01' <= VALUES < '2001-01-01')"
    )
    table = store.store.table("placed")
    moments = [datetime.datetime(1990 + i % 13, 1, 2) for i in range(50)]
    keys = pa.RecordBatch.from_arrays(
        [pa.array(range(50), pa.int32()), pa.array(moments, pa.timestamp("us"))], names=["k", "t"]
    )
    expected = Partitioner(table.schema, table.partitions).route(keys).tolist()
    route = TabletOf(table.schema, table.partitions, ["k", "t"])
    zoned = pa.array(moments, pa.timestamp("us", "UTC"))
    assert route([keys["k"], zoned]).to_pylist() == expected and -1 in expected
    assert route([pa.array([None, 1], pa.int32()), zoned[:2]]).to_pylist()[0] is None


def test_progress_is_a_line_per_step_where_nobody_looks_and_one_line_at_a_terminal():
    plain, terminal = io.StringIO(), io.StringIO()
    terminal.isatty = lambda: True
    for out in (plain, terminal):
        with Reporter(out) as report:
            for seconds in (0.0, 1.0, 11.0):
                report(Progress("saving", 1, 4, 10, seconds))
            report(Progress("saving", 4, 4, 1000, 12.0, is_over=True))
    assert plain.getvalue().splitlines() == [
        "saving: 1 of 4 tasks, 10 rows, 11.0 s",
        "saving: 4 of 4 tasks, 1,000 rows, 12.0 s",
    ]
    assert terminal.getvalue().count("\r\x1b[K") == 5 and "\n" not in terminal.getvalue()


# ---- with Spark ------------------------------------------------------------------------------------------------------

BAD_CSV = """k,name,amount,day,at
1,one,1.50,2020-01-02,2020-01-02T03:04:05+02:00
2,"tw""o",,,
3,much too long,1,,
4,x,99999,,
5,x,1,nodate,
x,x,1,,
,x,1,,
7,first,7,,
7,second,8,,
8,short
9,long,1.5,,,,
10,"",2.345,2020-01-01,2020-01-01 10:00:00
"""
REASONS = Counter(
    {
        "malformed row": 2,
        "column name: longer than VARCHAR(8)": 1,
        "column amount: not a value of DECIMAL(6,2)": 1,
        "column day: not a value of DATE": 1,
        "column k: not a value of INT": 1,
        "column k: NULL in a NOT NULL column": 1,
        "key occurs twice in the source": 1,
    }
)


def test_bad_rows_go_to_their_file_with_reasons_or_end_the_job(spark, place, store, capsys):
    store.execute(
        "CREATE TABLE r (k INT PRIMARY KEY, name VARCHAR(8), amount DECIMAL(6,2), day DATE, at TIMESTAMP) "
        "DISTRIBUTE BY HASH (k) INTO 2 BUCKETS"
    )
    source = place / "bad.csv"
    source.write_text(BAD_CSV)
    with pytest.raises(DataError, match=r"7 rows .* nothing was .*2: malformed row"):
        ingest(spark, source, place / "store", "r")
    with pytest.raises(DataError, match="more than 3 are too many"):
        ingest(spark, source, place / "store", "r", rejects=place / "some.parquet", max_rejects=3)
    assert pq.read_table(place / "some.parquet").num_rows == 3
    assert store.execute("SELECT count(*) FROM r").fetchone() == (0,)
    line = ["spark", "ingest", str(source), "r", "--to", str(place / "store"), "--json", "--job", "night"]
    assert main([*line, "--rejects", str(place / "bad.jsonl")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["written"], Counter(told["rejected"])) == (4, 4, REASONS)
    rejects = [json.loads(text) for text in (place / "bad.jsonl").read_text().splitlines()]
    assert Counter(row["reason"] for row in rejects) == REASONS
    assert all(row["file"].endswith("bad.csv") for row in rejects)
    assert {"8,short", "9,long,1.5,,,,"} == {row["row"] for row in rejects if isinstance(row["row"], str)}
    assert [row["row"]["name"] for row in rejects if "twice" in row["reason"]] == ["second"]
    assert store.execute("SELECT * FROM r ORDER BY k").fetchall() == [
        (1, "one", decimal.Decimal("1.50"), datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, 1, 4, 5)),
        (2, 'tw"o', None, None, None),
        (7, "first", decimal.Decimal("7.00"), None, None),
        (10, "", decimal.Decimal("2.35"), datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 10)),
    ]
    assert main(line) == 0 and json.loads(capsys.readouterr().out)["done_before"]
    with pytest.raises(NotNullViolation, match="--map k"):
        ingest(spark, source, place / "store", "r", skip=["k"])


def test_a_table_is_made_of_a_source_and_its_rows_come_in_the_order_of_tablets(spark, place, store):
    from nyala.spark.pipelines.ingest import in_tablet_order

    rows = [(k * 7919 % 1000, f"n{k}", k / 4) for k in range(1000)]
    columns = [pa.array(column) for column in zip(*rows)]
    pq.write_table(pa.table(columns, names=["id", "name", "x"]), place / "rows.parquet")
    line = f"spark ingest {place}/rows.parquet made --to {place}/store --create --primary-key id"
    assert main([*line.split(), "--distribute-by", "HASH (id) INTO 3 BUCKETS", "--map", "y=x * 2", "--sort"]) == 0
    found = store.execute("SELECT id, name, y FROM made ORDER BY id").fetchall()
    assert found == sorted((k, name, x * 2) for k, name, x in rows)
    with pytest.raises(AlreadyPresent):
        ingest(spark, place / "rows.parquet", place / "store", "made", mapping={"y": "x"}, sort=False)
    table = store.store.table("made")
    source = of_frame(spark.createDataFrame([(k, n) for k, n, _ in rows], "id long, name string"))
    frame = source.frame.select("id", "name")
    ordered = in_tablet_order(frame, plan_of(source, table, Operation.INSERT, {}, []))
    parts = [[row.id for row in part] for part in ordered.rdd.glom().collect()]
    partitioner = Partitioner(table.schema, table.partitions)
    for number, ids in enumerate(parts):
        assert ids == sorted(ids) and ids
        assert set(partitioner.route(pa.RecordBatch.from_pydict({"id": ids})).tolist()) == {number}


MOMENTS = (datetime.date(1999, 12, 31), datetime.datetime(2020, 2, 29, 1, 2, 3, 4))


def test_what_is_exported_is_read_again_as_it_was(spark, place, store):
    store.execute(
        "CREATE TABLE e (k BIGINT, s STRING, b BINARY, d DECIMAL(38,6), f DOUBLE, o BOOLEAN, y DATE, t TIMESTAMP, "
        "g FLOAT, i TINYINT, PRIMARY KEY (k, s)) DISTRIBUTE BY HASH (k) INTO 2 BUCKETS"
    )
    rows = [
        (1, 'a,"b"\\', b"\x00\xff", decimal.Decimal("1234567890123456789012.000001"), 0.1, True, *MOMENTS, 1.5, -128),
        (2, "line\nbreak\ttab\x01", b"", decimal.Decimal("-0.000001"), -1e300, False, None, None, None, 127),
        (-3, "", *[None] * 8),
    ]
    store.table("e").insert(rows)
    before = store.store.now()
    store.execute("DELETE FROM e WHERE k = 1")
    for name in ("parquet", "csv", "json"):
        done = export(spark, place / "store", "e", place / f"e.{name}", as_of=before)
        assert (done.format, done.rows) == (name, 3)
        listed = json.loads((place / f"e.{name}" / "_SUCCESS").read_text())
        names = {path.name for path in (place / f"e.{name}").iterdir()}
        assert names == {"_SUCCESS", *(file["path"] for file in listed["files"])}
        store.execute(
            f"CREATE TABLE e_{name} (k BIGINT, s STRING, b BINARY, d DECIMAL(38,6), f DOUBLE, o BOOLEAN, "
            "y DATE, t TIMESTAMP, g FLOAT, i TINYINT, PRIMARY KEY (k, s))"
        )
        more = {} if name == "parquet" else {"mapping": {"b": "unhex(b)"}}
        assert ingest(spark, place / f"e.{name}", place / "store", f"e_{name}", **more).written == 3
        assert sorted(store.execute(f"TABLE e_{name}").fetchall()) == sorted(rows)
    assert main(f"spark export e {place}/e.csv --from {place}/store".split()) == 1
    line = f"spark export e {place}/e.csv --from {place}/store --columns k,o --overwrite --where".split()
    assert main([*line, "k = 2"]) == 0
    (part,) = (place / "e.csv").glob("part-*")
    assert pacsv.read_csv(part).to_pylist() == [{"k": 2, "o": False}]
    (place / "e.csv" / "stranger").touch()
    with pytest.raises(InterfaceError, match="stranger"):
        export(spark, place / "store", "e", place / "e.csv", overwrite=True)


def failing(task):
    if task == 2:
        raise DataError("two is none of ours")
    if task == 3:
        raise ValueError("three neither")
    return task * 10


def test_tasks_give_their_results_in_order_and_their_own_errors(spark):
    told = []
    assert run_tasks(spark, "working", [1, 0, 4], failing, told.append, int) == [10, 0, 40]
    assert told[-1].rows == 50 and told[-1].is_over
    with pytest.raises(DataError, match="two is none of ours"):
        run_tasks(spark, "working", [1, 2], failing)
    with pytest.raises(nyala.errors.OperationalError, match=r"working: .*three neither"):
        run_tasks(spark, "working", [3], failing)
    assert reason(ValueError("a\nnyala.errors.DataError: b\nc")) == "DataError: b"
