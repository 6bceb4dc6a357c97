"""Users on every road from Spark: the rights of SQL hold with its errors, and tasks have a token, never a password."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nyala
import nyala.spark
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nyala.errors import InterfaceError, InvalidPassword, LoginNeeded, PermissionDenied
from nyala.spark import workers
from nyala.spark.pipelines import backup, export, ingest, restore
from nyala.spark.source.batch_reader import reader
from nyala.spark.source.options import Use, parse
from nyala.spark.source.stream_reader import StreamReader
from nyala.spark.types import spark_schema
from nyala.spark.writing.batch import TableWriter
from nyala.spark.writing.stream import StreamSink
from nyala.testing import MiniCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = "of-ann-7f3"
DENIED = "permission denied for table secret: user ann needs SELECT (GRANT SELECT ON secret TO ann)"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A cluster with users: a connection of this account without a user has all rights."""
    with MiniCluster(tservers=1, masters=1, options={"durability": "os"}) as cluster:
        yield from _filled(cluster.url)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same in a directory that this process serves."""
    with nyala.connect(tmp_path_factory.mktemp("users") / "store") as connection:
        yield from _filled(connection.serve())


def _filled(url: str) -> Iterator[str]:
    with nyala.connect(url) as owner:
        owner.execute(f"CREATE USER ann PASSWORD '{SECRET}'; CREATE USER eve PASSWORD 'of eve'")
        for name in ("t", "secret"):
            owner.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, v INT); INSERT INTO {name} VALUES (1, 10), (2, 20)")
        owner.execute("GRANT SELECT, INSERT, UPDATE ON t TO ann; GRANT CREATE ON SCHEMA public TO ann")
    yield url
    workers.close()


def own(url: str, statement: str) -> list[tuple[Any, ...]]:
    """Rows that the owner of the store reads by a statement."""
    with nyala.connect(url) as owner:
        found = owner.execute(statement)
        return [] if found.description is None else found.fetchall()


def as_ann(url: str) -> str:
    return url.replace("nyala://", f"nyala://ann:{SECRET}@")


def options(url: str, **more: str) -> dict[str, str]:
    return {"url": url, "user": "ann", "password": SECRET, **more}


# ---- tasks and their tokens ------------------------------------------------------------------------------------------


def test_what_goes_to_the_tasks_has_a_token_and_no_password(url: str) -> None:
    schema = spark_schema([("k", nyala.model.types.INT, False), ("v", nyala.model.types.INT, True)])
    for given in (options(url, dbtable="t"), {"url": as_ann(url), "dbtable": "t"}):
        stream = StreamReader({**given, "startingTimestamp": "earliest"}, _with_changes(url))
        made = [reader(given, schema), TableWriter(given, schema, False), StreamSink(given, schema, False), stream]
        for each in made:
            sent = pickle.dumps(each)
            assert SECRET.encode() not in sent and SECRET not in repr(each.__getstate__())
            copy = pickle.loads(sent)
            assert copy._connection().store.user == "ann"
            assert copy._connection().store.task_token() == copy._given["token"]
        begin = stream.initialOffset()
        parts = stream.partitions(begin, stream.latestOffset(begin))
        assert parts and SECRET.encode() not in pickle.dumps(parts)
        stale = pickle.loads(pickle.dumps(stream))
        stale._given = stale._given.replaced(token=b"lost")  # of an earlier batch
        assert sum(batch.num_rows for part in parts for batch in stale.read(part)) >= 2


def _with_changes(url: str) -> Any:
    from nyala.spark.source.schemas import schema

    return schema(options(url, dbtable="t", startingTimestamp="earliest"))


def test_a_token_in_place_of_the_password(url: str) -> None:
    token = nyala.spark.token(url, "ann", SECRET, 60.0)
    found = workers.connection(url, **parse({"url": url, "dbtable": "t", "token": token}, Use.READ).client())
    assert found.execute("SELECT current_user, count(*) FROM t").fetchall()[0][0] == "ann"
    with pytest.raises(InterfaceError, match="option token: it names its user"):
        parse(options(url, dbtable="t", token=token), Use.READ)
    with pytest.raises(InterfaceError, match=r"option token: a token is needed, as `nyala.spark.token` returns it$"):
        parse({"url": url, "dbtable": "t", "token": token[:20]}, Use.READ)
    with pytest.raises(InterfaceError, match="option tokenSeconds='90000': 86400 seconds, a day, are the most"):
        parse(options(url, tokenSeconds="90000"), Use.READ)
    with pytest.raises(InvalidPassword) as caught:
        nyala.spark.token(url, "ann", "wrong-8d1")
    assert "wrong-8d1" not in str(caught.value)
    with pytest.raises(LoginNeeded, match="a token is a user's"):
        nyala.spark.token(url)


def test_connections_of_expired_tokens_are_closed(url: str) -> None:
    client = {"token": bytes.fromhex(nyala.spark.token(url, "ann", SECRET, 0.2))}
    first = workers.connection(url, **client)
    assert first.store.user == "ann"
    while not any(workers._is_expired_token(option) for option in client.items()):
        first.store.now()
    workers.connection(url, deadline=29.0)
    assert not any(key[-1] == ("token", client["token"]) for key in workers._known)


# ---- each road, by Spark ---------------------------------------------------------------------------------------------


@pytest.fixture
def denied() -> Callable[[Callable[[], object]], None]:
    """Checks that an action ends with SQL's error, and that no error shows a password."""

    def check(action: Callable[[], object]) -> None:
        with pytest.raises(Exception) as caught:
            action()
        assert DENIED in str(caught.value) and SECRET not in str(caught.value)

    return check


def load(spark: SparkSession, given: dict[str, str], **more: str) -> int:
    return spark.read.format("nyala").options(**given, **more).load().count()


def test_a_served_directory_has_the_same_users(
    spark: SparkSession, served: str, denied: Callable[[Callable[[], object]], None]
) -> None:
    rows = spark.createDataFrame([(11, 1), (12, 2)], "k INT, v INT")
    rows.write.format("nyala").mode("append").options(**options(served, dbtable="t")).save()
    assert load(spark, options(served), dbtable="t") == 4
    denied(lambda: load(spark, {"url": as_ann(served)}, dbtable="secret"))


def test_the_error_is_that_of_sql(url: str) -> None:
    with nyala.connect(as_ann(url)) as ann, pytest.raises(PermissionDenied) as caught:
        ann.execute("SELECT * FROM secret")
    assert DENIED in str(caught.value)


def test_tables_are_read_with_the_users_rights(
    spark: SparkSession, url: str, denied: Callable[[Callable[[], object]], None], capfd: pytest.CaptureFixture[str]
) -> None:
    for given in (options(url), {"url": as_ann(url)}, {"url": url, "token": nyala.spark.token(as_ann(url))}):
        frame = spark.read.format("nyala").options(**given, dbtable="t").load()
        assert frame.where("k > 0").count() == 2
        for shown in (
            frame._jdf.queryExecution().toString(),
            str(frame),
            frame._jdf.queryExecution().debug().toString(),
        ):
            assert SECRET not in shown
        denied(lambda given=given: load(spark, given, dbtable="secret"))
        denied(lambda given=given: load(spark, given, query="SELECT count(*) FROM secret"))
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW of_ann USING nyala OPTIONS (url '{url}', dbtable 't', user 'ann', "
              f"password '{SECRET}')")  # fmt: skip
    assert spark.sql("SELECT * FROM of_ann").count() == 2
    assert SECRET not in str(spark.sql("EXPLAIN EXTENDED SELECT * FROM of_ann").collect())
    denied(lambda: nyala.spark.table(spark, "secret", as_ann(url)).count())
    denied(lambda: nyala.spark.sql(spark, "SELECT sum(v) FROM secret", as_ann(url)).collect())
    assert nyala.spark.table(spark, "t", as_ann(url)).count() == 2
    assert nyala.spark.sql(spark, "SELECT sum(v) AS s FROM t", as_ann(url)).collect()[0]["s"] >= 30
    told = capfd.readouterr()
    assert SECRET not in told.out + told.err


def test_the_drivers_environment_names_the_user(
    spark: SparkSession, url: str, monkeypatch: pytest.MonkeyPatch, denied: Callable[[Callable[[], object]], None]
) -> None:
    # Spark's processes, which run the tasks, were started without these variables.
    monkeypatch.setenv("NYALA_USER", "ann")
    monkeypatch.setenv("NYALA_PASSWORD", SECRET)
    assert nyala.spark.table(spark, "t", url).count() == 2
    denied(lambda: nyala.spark.table(spark, "secret", url).count())


def test_connections_with_sparks_engine_keep_their_user(
    spark: SparkSession, url: str, denied: Callable[[Callable[[], object]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nyala.spark.engine.query.SMALL_TABLE", 0)  # tasks read even this table
    monkeypatch.setattr("nyala.spark.engine.query.FEW_ROWS", 0)
    with nyala.connect(as_ann(url), engine="spark") as ann:
        assert ann.execute("SELECT count(*) FROM t WHERE v < 30").fetchall() == [(2,)]
        denied(lambda: ann.execute("SELECT count(*) FROM secret").fetchall())


def test_rows_are_written_with_the_users_rights(spark: SparkSession, url: str) -> None:
    rows = spark.createDataFrame([(11, 1), (12, 2)], "k INT, v INT")
    own(url, "DELETE FROM t WHERE k > 10")
    rows.write.format("nyala").mode("append").options(**options(url, dbtable="t")).save()
    assert own(url, "SELECT count(*) FROM t WHERE k > 10") == [(2,)]
    many = spark.range(100, 60_100).selectExpr("CAST(id AS INT) AS k", "CAST(hash(id) AS INT) AS v")
    many.write.format("nyala").mode("append").options(url=as_ann(url), dbtable="t", operation="upsert").save()
    assert own(url, "SELECT count(*) FROM t WHERE k >= 100") == [(60_000,)]
    own(url, "DELETE FROM t WHERE k > 10")
    with pytest.raises(Exception, match="permission denied for table secret: user ann needs INSERT") as caught:
        rows.write.format("nyala").mode("append").options(**options(url, dbtable="secret")).save()
    assert SECRET not in str(caught.value)
    assert own(url, "SELECT count(*) FROM secret") == [(2,)]


def test_streams_run_with_the_users_rights(spark: SparkSession, url: str, tmp_path: Path) -> None:
    own(url, "CREATE TABLE IF NOT EXISTS copied (k INT PRIMARY KEY, v INT)")
    own(url, "GRANT INSERT, UPDATE ON copied TO ann")
    given = options(url, dbtable="t", startingTimestamp="earliest")

    def run(source: dict[str, str], target: str) -> None:
        changes = spark.readStream.format("nyala").options(**source).load().select("k", "v")
        sink = changes.writeStream.format("nyala").options(**options(url, dbtable=target, operation="upsert"))
        query = sink.option("checkpointLocation", str(tmp_path / target)).trigger(availableNow=True).start()
        query.awaitTermination()

    run(given, "copied")
    assert own(url, "SELECT k, v FROM copied ORDER BY k") == own(url, "SELECT k, v FROM t ORDER BY k")
    for source, target, right in ((given, "secret", "INSERT"), ({**given, "dbtable": "secret"}, "copied", "SELECT")):
        with pytest.raises(Exception, match=f"permission denied for table secret: user ann needs {right}") as caught:
            run(source, target)
        assert SECRET not in str(caught.value)


def test_pipelines_run_with_the_users_rights(spark: SparkSession, url: str, tmp_path: Path) -> None:
    own(url, "DELETE FROM t WHERE k > 10")
    pq.write_table(
        pa.table({"k": pa.array([21, 22], pa.int32()), "v": pa.array([1, 2], pa.int32())}), tmp_path / "a.parquet"
    )
    source = tmp_path / "a.parquet"
    assert ingest.ingest(spark, source, as_ann(url), "t", operation="upsert").rows == 2
    assert export.export(spark, as_ann(url), "t", tmp_path / "exported").files
    assert backup.backup(spark, as_ann(url), tmp_path / "saved", ["t"]).folder
    with pytest.raises(
        PermissionDenied, match="user ann is no member of role nyala"
    ):  # which restored tables belong to
        restore.restore(spark, tmp_path / "saved", as_ann(url), renamed={"t": "t2"})
    assert restore.restore(spark, tmp_path / "saved", url, renamed={"t": "t2"})
    assert own(url, "SELECT count(*) FROM t2") == [(4,)]
    own(url, "DROP TABLE t2; DELETE FROM t WHERE k > 10")
    refused: list[Callable[[], object]] = [
        lambda: export.export(spark, as_ann(url), "secret", tmp_path / "no"),
        lambda: backup.backup(spark, as_ann(url), tmp_path / "not", ["secret"]),
        lambda: ingest.ingest(spark, source, as_ann(url), "secret"),
    ]
    for action in refused:
        with pytest.raises(PermissionDenied, match="permission denied for table secret: user ann needs") as caught:
            action()
        assert SECRET not in str(caught.value)


def test_a_token_that_expires_ends_the_job_with_its_name(spark: SparkSession, url: str) -> None:
    frame = spark.read.format("nyala").options(**options(url, dbtable="t", tokenSeconds="0.001")).load()
    with pytest.raises(Exception, match=r"the token for tasks of user ann has expired at .* UTC; start the work again"):
        frame.count()


def test_a_wrong_password_is_refused_and_not_shown(spark: SparkSession, url: str) -> None:
    with pytest.raises(Exception, match='password authentication failed for user "ann"') as caught:
        spark.read.format("nyala").options(url=url, user="ann", password="wrong-8d1", dbtable="t").load()
    assert "wrong-8d1" not in str(caught.value)
