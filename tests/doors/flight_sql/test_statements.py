"""Statements, parameters, transactions and ingestion, by the messages of Flight SQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from flight_sql_support import SCHEMA, SLOW, Client, command, served, until
from nyala.doors.flight_sql.protocol.messages import in_any, message, read
from nyala.doors.flight_sql.protocol.numbers import CancelStatus, End, IfExists, IfNotExist
from nyala.doors.flight_sql.server.server import FlightSqlServer
from nyala.doors.flight_sql.session.results import MESSAGE_BYTES, parts_of
from pyarrow import flight


@pytest.fixture(scope="module")
def server() -> Iterator[FlightSqlServer]:
    with served() as server:
        yield server


@pytest.fixture
def client(server: FlightSqlServer) -> Iterator[Client]:
    with Client(server) as client:
        for table in ("t", "fresh"):
            client.update(f"DROP TABLE IF EXISTS {table}")
        client.update("DROP SCHEMA IF EXISTS other CASCADE")
        client.update("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
        yield client
        for session in server.sessions.all():
            server.sessions.end(session)


def facts(error: pytest.ExceptionInfo[Any]) -> dict[str, Any]:
    """The facts that come with the message of an error."""
    found: dict[str, Any] = json.loads(error.value.extra_info)
    return found


def test_a_statement_returns_its_rows_and_the_types_of_its_columns(client: Client) -> None:
    assert client.update("INSERT INTO t VALUES (1, 'one'), (2, NULL)") == 2
    info = client.info("CommandStatementQuery", query="SELECT k, v, CAST(1.5 AS DECIMAL(9, 2)) AS d FROM t ORDER BY k")
    assert info.schema.types == [pa.int32(), pa.string(), pa.decimal128(9, 2)]
    assert info.schema.field("d").metadata[b"ARROW:FLIGHT:SQL:PRECISION"] == b"9"
    rows = client.read(info)
    assert rows.to_pydict()["v"] == ["one", None]
    with pytest.raises(flight.FlightServerError, match="has been read") as error:
        client.read(info)
    assert facts(error)["sqlstate"] == "24000"


def test_a_schema_is_told_without_running_the_query(client: Client) -> None:
    found = client.flight.get_schema(command("CommandStatementQuery", query="SELECT k / 0 AS x FROM t"), client.options)
    assert found.schema.names == ["x"]
    prepared = client.prepare("DELETE FROM t WHERE k = ?")
    assert pa.ipc.read_schema(pa.py_buffer(prepared.dataset_schema)).names == []
    found = client.flight.get_schema(
        command("CommandPreparedStatementQuery", prepared_statement_handle=prepared.prepared_statement_handle),
        client.options,
    )
    assert found.schema.names == []


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SHOW TABLES", ["table", "kind"]),
        ("SHOW threads", ["threads"]),
        ("EXPLAIN ANALYZE INSERT INTO t VALUES (77, 'x')", ["plan"]),
        ("INSERT INTO t VALUES (88, 'x') RETURNING v", ["v"]),
        ("SELECT ? + k AS s FROM t", ["s"]),
    ],
)
def test_prepared_statements_know_their_columns_before_they_run(client: Client, text: str, columns: list[str]) -> None:
    prepared = client.prepare(text)
    assert pa.ipc.read_schema(pa.py_buffer(prepared.dataset_schema)).names == columns
    assert client.query("SELECT count(*) FROM t") == [(0,)]


def test_statements_without_rows_run_once_by_get_flight_info(client: Client) -> None:
    info = client.info("CommandStatementQuery", query="INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    assert (info.total_records, info.schema.names) == (3, [])
    assert client.read(info).num_rows == 0
    assert client.query("SELECT count(*) FROM t") == [(3,)]


def test_a_prepared_query_runs_once_for_each_row_of_parameters(client: Client) -> None:
    client.update("INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')")
    prepared = client.prepare("SELECT v FROM t WHERE k = ?")
    parameters = pa.ipc.read_schema(pa.py_buffer(prepared.parameter_schema))
    assert parameters.types == [pa.int32()]
    handle = prepared.prepared_statement_handle
    reply = client.put("CommandPreparedStatementQuery", pa.table({"x": [3, 9, 1]}), prepared_statement_handle=handle)
    assert reply.prepared_statement_handle == handle
    found = client.get("CommandPreparedStatementQuery", prepared_statement_handle=handle)
    assert found.to_pydict() == {"v": ["three", "one"]}
    client.act("ClosePreparedStatement", prepared_statement_handle=handle)
    with pytest.raises(flight.FlightServerError) as error:
        client.info("CommandPreparedStatementQuery", prepared_statement_handle=handle)
    assert facts(error)["sqlstate"] == "26000"


def test_parameters_must_fit_the_statement(client: Client) -> None:
    handle = client.prepare("SELECT v FROM t WHERE k = ? AND v = ?").prepared_statement_handle
    with pytest.raises(flight.FlightServerError, match="has 2 parameters, and none are bound"):
        client.info("CommandPreparedStatementQuery", prepared_statement_handle=handle)
    with pytest.raises(flight.FlightServerError, match="2 parameters, and the rows have 1"):
        client.put("CommandPreparedStatementQuery", pa.table({"x": [3]}), prepared_statement_handle=handle)


@pytest.mark.parametrize("text", ["INSERT INTO t VALUES ($1, $2)", "UPSERT INTO t (v, k) VALUES (?, ?)"])
def test_rows_of_parameters_are_written_together(client: Client, text: str) -> None:
    rows = pa.table({"a": range(100_000), "b": [str(i) for i in range(100_000)]})
    rows = rows if text.startswith("INSERT") else rows.select(["b", "a"])
    handle = client.prepare(text).prepared_statement_handle
    reply = client.put("CommandPreparedStatementUpdate", rows, prepared_statement_handle=handle)
    assert reply.record_count == 100_000
    assert client.query("SELECT count(*) AS n, max(k) AS k, max(v) AS v FROM t") == [(100_000, 99_999, "99999")]


def test_one_wrong_row_of_parameters_leaves_none(client: Client) -> None:
    handle = client.prepare("INSERT INTO t VALUES (?, ?)").prepared_statement_handle
    repeated = pa.table({"a": [*range(70_000), 5], "b": ["x"] * 70_001})
    with pytest.raises(flight.FlightServerError) as error:
        client.put("CommandPreparedStatementUpdate", repeated, prepared_statement_handle=handle)
    assert facts(error)["sqlstate"] == "23505"
    assert client.query("SELECT count(*) FROM t") == [(0,)]


def test_statements_other_than_inserts_run_for_each_row_or_for_none(client: Client) -> None:
    client.update("INSERT INTO t VALUES (1, 'one'), (2, 'two')")
    handle = client.prepare("UPDATE t SET v = CAST(? AS STRING) WHERE k = 10 / ?").prepared_statement_handle
    with pytest.raises(flight.FlightServerError) as error:
        client.put(
            "CommandPreparedStatementUpdate",
            pa.table({"a": ["changed", "x"], "b": [5, 0]}),
            prepared_statement_handle=handle,
        )
    assert facts(error)["sqlstate"] == "22012"
    assert client.query("SELECT v FROM t ORDER BY k") == [("one",), ("two",)]
    rows = pa.table({"a": ["eins", "zwei"], "b": [10, 5]})
    assert client.put("CommandPreparedStatementUpdate", rows, prepared_statement_handle=handle).record_count == 2
    assert client.query("SELECT v FROM t ORDER BY k") == [("eins",), ("zwei",)]


def test_transactions_and_savepoints(client: Client, server: FlightSqlServer) -> None:
    transaction = client.act("BeginTransaction").transaction_id
    client.update("INSERT INTO t VALUES (1, 'kept')", transaction_id=transaction)
    first = client.act("BeginSavepoint", transaction_id=transaction, name='a "name"').savepoint_id
    client.update("INSERT INTO t VALUES (2, 'undone')")  # without its id it is part of the transaction, too
    second = client.act("BeginSavepoint", transaction_id=transaction, name='a "name"').savepoint_id
    client.act("EndSavepoint", savepoint_id=first, action=End.ROLLBACK)
    with pytest.raises(flight.FlightServerError, match=r"savepoint .* does not exist"):
        client.act("EndSavepoint", savepoint_id=second, action=End.COMMIT)
    client.act("EndSavepoint", savepoint_id=first, action=End.COMMIT)
    with Client(server) as other:
        assert other.query("SELECT count(*) FROM t") == [(0,)]
        client.act("EndTransaction", transaction_id=transaction, action=End.COMMIT)
        assert other.query("SELECT v FROM t") == [("kept",)]
    with pytest.raises(flight.FlightServerError, match="has ended") as error:
        client.query("SELECT 1", transaction_id=transaction)
    assert facts(error)["sqlstate"] == "25P01"


def test_a_transaction_that_is_rolled_back_leaves_nothing(client: Client) -> None:
    transaction = client.act("BeginTransaction").transaction_id
    client.update("INSERT INTO t VALUES (1, 'x')", transaction_id=transaction)
    with pytest.raises(flight.FlightServerError, match="there is no action 7"):
        client.act("EndTransaction", transaction_id=transaction, action=7)
    client.act("EndTransaction", transaction_id=transaction, action=End.ROLLBACK)
    assert client.query("SELECT count(*) FROM t") == [(0,)]


def test_a_conflict_ends_the_transaction_that_commits_second(client: Client, server: FlightSqlServer) -> None:
    client.update("INSERT INTO t VALUES (1, 'x')")
    with Client(server) as other:
        transactions = [one.act("BeginTransaction").transaction_id for one in (client, other)]
        for one, transaction in zip((client, other), transactions, strict=True):
            assert one.query("SELECT v FROM t", transaction_id=transaction) == [("x",)]
        client.update("UPDATE t SET v = 'a'", transaction_id=transactions[0])
        client.act("EndTransaction", transaction_id=transactions[0], action=End.COMMIT)
        with pytest.raises(flight.FlightServerError) as error:
            other.update("UPDATE t SET v = 'b'", transaction_id=transactions[1])
            other.act("EndTransaction", transaction_id=transactions[1], action=End.COMMIT)
        assert (facts(error)["sqlstate"], facts(error)["retryable"]) == ("40001", True)


# ---- ingestion -------------------------------------------------------------------------------------------------------


def ingest(
    client: Client, rows: pa.Table, table: str = "fresh", not_exist: int = 0, exists: int = 0, **more: Any
) -> int:
    options = message("TableDefinitionOptions", if_not_exist=not_exist, if_exists=exists)
    return int(
        client.put("CommandStatementIngest", rows, table=table, table_definition_options=options, **more).record_count
    )


ROWS = pa.table({"a": pa.array([2, 1], pa.int16()), "Word": ["x", None]})


def test_rows_are_ingested_into_new_and_existing_tables(client: Client) -> None:
    with pytest.raises(flight.FlightServerError, match="does not exist"):
        ingest(client, ROWS, not_exist=IfNotExist.FAIL)
    assert ingest(client, ROWS, not_exist=IfNotExist.CREATE) == 2
    assert client.query('SELECT a, "Word" FROM fresh ORDER BY a') == [(1, None), (2, "x")]
    with pytest.raises(flight.FlightServerError, match="exists already"):
        ingest(client, ROWS, exists=IfExists.FAIL)
    assert ingest(client, ROWS, exists=IfExists.APPEND) == 2
    assert client.query("SELECT count(*) FROM fresh") == [(4,)]
    assert ingest(client, ROWS.select(["a"]), exists=IfExists.REPLACE) == 2
    assert client.get("CommandStatementQuery", query="SELECT * FROM fresh").column_names == ["a"]


def test_the_key_of_an_ingested_table(client: Client) -> None:
    key = [message("IngestOption", key="primary_key", value="a")]
    ingest(client, ROWS, options=key, schema=SCHEMA, catalog="nyala")
    table = "CommandGetPrimaryKeys"
    assert client.get(table, table="fresh").to_pydict()["column_name"] == ["a"]
    with pytest.raises(flight.FlightServerError) as error:
        ingest(client, ROWS, exists=IfExists.APPEND)
    assert facts(error)["sqlstate"] == "23505"
    with pytest.raises(flight.FlightServerError, match="no column nope"):
        ingest(client, ROWS, "other", options=[message("IngestOption", key="primary_key", value="nope")])
    with pytest.raises(flight.FlightServerError, match="there is no option x of ingestion"):
        ingest(client, ROWS, "other", options=[message("IngestOption", key="x", value="1")])


def test_rows_are_ingested_into_the_schema_that_is_named_or_the_first_on_the_path(client: Client) -> None:
    with pytest.raises(flight.FlightServerError, match="schema other does not exist"):
        ingest(client, ROWS, schema="other")
    client.update("CREATE SCHEMA other")
    assert ingest(client, ROWS, schema="other") == 2
    assert client.query("SELECT table_schema FROM information_schema.tables WHERE table_name = 'fresh'") == [("other",)]
    client.update("SET search_path TO other, public")
    assert ingest(client, ROWS, exists=IfExists.APPEND) == 2
    assert ingest(client, ROWS.slice(1), schema=SCHEMA) == 1
    assert ingest(client, ROWS.slice(1), schema=SCHEMA, exists=IfExists.APPEND) == 1
    assert ingest(client, ROWS, "a.b") == 2
    assert client.query(f"SELECT (SELECT count(*) FROM {SCHEMA}.fresh) AS a, (SELECT count(*) FROM fresh) AS b") == [
        (2, 4)
    ]
    assert client.query('SELECT count(*) FROM other."a.b"') == [(2,)]


def test_temporary_tables_are_ingested_into_before_others_of_their_name(client: Client) -> None:
    ingest(client, ROWS.slice(1))
    assert ingest(client, ROWS, temporary=True) == 2
    assert ingest(client, ROWS, temporary=True, exists=IfExists.APPEND) == 2
    assert ingest(client, ROWS.slice(1), schema=SCHEMA, exists=IfExists.APPEND) == 1
    assert client.query(f"SELECT (SELECT count(*) FROM fresh) AS a, (SELECT count(*) FROM {SCHEMA}.fresh) AS b") == [
        (4, 2)
    ]
    pattern = {"db_schema_filter_pattern": "p%", "table_name_filter_pattern": "fresh"}
    listed = client.get("CommandGetTables", **pattern).to_pylist()
    assert [(row["db_schema_name"], row["table_type"]) for row in listed] == [
        ("pg_temp", "LOCAL TEMPORARY"),
        (SCHEMA, "TABLE"),
    ]
    with pytest.raises(flight.FlightServerError, match="cannot be in schema other"):
        ingest(client, ROWS, temporary=True, schema="other")
    with pytest.raises(flight.FlightServerError):
        key = [message("IngestOption", key="primary_key", value="a")]
        ingest(client, pa.table({"a": [1, 1]}), temporary=True, exists=IfExists.REPLACE, options=key)
    assert client.query("SELECT count(*) FROM fresh") == [(4,)]


def test_prepared_statements_follow_the_search_path(client: Client) -> None:
    client.update("DROP SCHEMA IF EXISTS other CASCADE")
    client.update("CREATE SCHEMA other")
    client.update("CREATE TABLE other.t (k DATE PRIMARY KEY, more INT)")
    text = "SELECT * FROM t WHERE k = ?"
    described = [prepared(client, text)]
    client.update("SET search_path TO other")
    described.append(prepared(client, text))
    assert described == [(["k", "v"], [pa.int32()]), (["k", "more"], [pa.date32()])]


def prepared(client: Client, text: str) -> tuple[list[str], list[pa.DataType]]:
    """The names of the columns, and the types of the parameters, that a prepared statement has."""
    made = client.prepare(text)
    columns, parameters = (
        pa.ipc.read_schema(pa.py_buffer(found)) for found in (made.dataset_schema, made.parameter_schema)
    )
    return columns.names, parameters.types


def test_an_ingestion_that_fails_leaves_no_table_and_no_rows(client: Client) -> None:
    key = [message("IngestOption", key="primary_key", value="a")]
    with pytest.raises(flight.FlightServerError):
        ingest(client, pa.table({"a": [1, 1]}), options=key)
    assert client.query("SELECT count(*) FROM information_schema.tables WHERE table_name = 'fresh'") == [(0,)]
    ingest(client, ROWS)
    with pytest.raises(flight.FlightServerError):
        ingest(client, pa.table({"a": [1, 1]}), options=key, exists=IfExists.REPLACE)
    assert client.query("SELECT count(*) FROM fresh") == [(2,)]


def test_an_ingestion_is_part_of_the_transaction_in_progress(client: Client) -> None:
    transaction = client.act("BeginTransaction").transaction_id
    ingest(client, ROWS)
    client.act("EndTransaction", transaction_id=transaction, action=End.ROLLBACK)
    assert client.query("SELECT count(*) FROM information_schema.tables WHERE table_name = 'fresh'") == [(0,)]


def test_a_client_that_leaves_its_rows_half_way_writes_none(server: FlightSqlServer, client: Client) -> None:
    with Client(server) as other:
        descriptor = command("CommandStatementIngest", table="fresh")
        writer, _ = other.flight.do_put(descriptor, ROWS.schema, flight.FlightCallOptions(timeout=3.0))
        writer.write_table(ROWS)
        until(lambda: len(server.calls) == 1)
        until(lambda: len(server.calls) == 0)  # ended by the deadline of the call
        with pytest.raises((flight.FlightTimedOutError, flight.FlightCancelledError)):
            writer.close()
    assert client.query("SELECT count(*) FROM information_schema.tables WHERE table_name = 'fresh'") == [(0,)]


# ---- cancel, errors, limits ------------------------------------------------------------------------------------------


def test_a_result_is_cancelled_by_its_flight_info(client: Client) -> None:
    info = client.info("CommandStatementQuery", query="SELECT n FROM generate_series(1, 100000000) AS g(n)")
    sent = read("FlightInfo", info.serialize())
    (reply,) = client.action("CancelFlightInfo", message("CancelFlightInfoRequest", info=sent).SerializeToString())
    assert read("CancelFlightInfoResult", reply).status == CancelStatus.CANCELLED
    with pytest.raises(flight.FlightServerError):
        client.read(info)
    reply = client.act("CancelQuery", info=info.serialize())
    assert reply.result == CancelStatus.NOT_CANCELLABLE


def test_a_running_stream_is_cancelled(client: Client) -> None:
    info = client.info("CommandStatementQuery", query="SELECT n FROM generate_series(1, 1000000000) AS g(n)")
    reader = client.flight.do_get(info.endpoints[0].ticket, client.options)
    reader.read_chunk()
    assert client.act("CancelQuery", info=info.serialize()).result == CancelStatus.CANCELLED
    with pytest.raises(flight.FlightCancelledError):
        for _ in reader:
            pass


def test_the_deadline_of_a_call_stops_its_statement(client: Client, server: FlightSqlServer) -> None:
    call = flight.FlightCallOptions(timeout=0.2)
    with pytest.raises(flight.FlightTimedOutError):
        client.flight.get_flight_info(command("CommandStatementQuery", query=SLOW), call)
    until(lambda: len(server.calls) == 0)


def test_errors_have_a_sqlstate_and_a_place(client: Client) -> None:
    with pytest.raises(flight.FlightServerError, match=r"table nope does not exist(?s:.*)\(SQLSTATE 42P01\)") as error:
        client.query("SELECT * FROM nope")
    found = facts(error)
    assert (found["sqlstate"], found["class"], found["position"]) == ("42P01", "UnknownTable", 14)
    with pytest.raises(flight.FlightServerError) as error:
        client.read(
            client.info("CommandStatementQuery", query="SELECT 10 / (n - 90000) FROM generate_series(1, 100000) g(n)")
        )
    assert facts(error)["sqlstate"] == "22012"


@pytest.mark.parametrize("text", ["COPY t FROM '/etc/passwd'", "SELECT * FROM read_csv('/etc/passwd')"])
def test_clients_do_not_read_files_of_the_server(client: Client, text: str) -> None:
    with pytest.raises(flight.FlightServerError):
        client.query(text)


def test_several_statements_are_run_but_not_prepared(client: Client) -> None:
    assert client.query("INSERT INTO t VALUES (1, 'x'); SELECT v FROM t") == [("x",)]
    with pytest.raises(flight.FlightServerError, match="cannot be prepared"):
        client.prepare("SELECT 1; SELECT 2")


def test_substrait_is_refused(client: Client) -> None:
    with pytest.raises(flight.FlightServerError, match="send SQL") as error:
        client.info("CommandStatementSubstraitPlan", plan=message("SubstraitPlan", plan=b"x"))
    assert facts(error)["sqlstate"] == "0A000"
    with pytest.raises(flight.FlightServerError, match="send SQL"):
        client.action("CreatePreparedSubstraitPlan", in_any(message("ActionCreatePreparedSubstraitPlanRequest")))


def test_batches_are_cut_below_the_limit_of_messages() -> None:
    wide = pa.record_batch({"x": ["y" * 1000] * 50_000, "n": range(50_000)})
    parts = list(parts_of(wide))
    assert pa.Table.from_batches(parts) == pa.Table.from_batches([wide])
    assert max(part.nbytes for part in parts) <= MESSAGE_BYTES
    assert len(list(parts_of(wide.slice(0, 10)))) == 1
    assert list(parts_of(wide.slice(0, 0))) == []
