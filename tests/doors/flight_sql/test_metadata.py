"""Facts about the server and its catalog, as clients read them."""

from __future__ import annotations

from collections.abc import Iterator

import nyala
import pyarrow as pa
import pytest
from flight_sql_support import SCHEMA, Client, served
from hypothesis import given
from hypothesis import strategies as st
from nyala.doors.flight_sql.metadata import catalogs
from nyala.doors.flight_sql.metadata.commands import SCHEMAS
from nyala.doors.flight_sql.metadata.xdbc_types import XDBC_TYPES
from nyala.doors.flight_sql.protocol.numbers import SqlInfo


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with nyala.connect(":memory:") as connection:
        connection.execute(
            'CREATE TABLE hosts (name STRING, day DATE, load DECIMAL(9, 2), "Odd name" VARCHAR(7), '
            "PRIMARY KEY (name, day))"
        )
        connection.execute("CREATE TABLE h_sts (k INT PRIMARY KEY)")
        connection.execute("CREATE VIEW recent AS SELECT name, load FROM hosts")
        connection.execute("CREATE SCHEMA staging; CREATE TABLE staging.hosts (k INT PRIMARY KEY, v INT)")
        connection.execute("CREATE VIEW staging.few AS SELECT v FROM staging.hosts")
        with served(connection) as server, Client(server) as client:
            yield client


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_the_rows_of_each_command_have_the_schema_of_its_flight_info(client: Client, name: str) -> None:
    info = client.info(name)
    rows = client.read(info)
    assert rows.schema == info.schema == SCHEMAS[name]
    for field in rows.schema:
        assert field.nullable or rows.column(field.name).null_count == 0


def test_catalogs_and_schemas(client: Client) -> None:
    assert client.get("CommandGetCatalogs").to_pylist() == [{"catalog_name": "nyala"}]
    schemas = client.get("CommandGetDbSchemas").to_pydict()["db_schema_name"]
    assert schemas == sorted(schemas) and {SCHEMA, "pg_catalog"} <= set(schemas)
    found = client.get("CommandGetDbSchemas", catalog="nyala", db_schema_filter_pattern=f"{SCHEMA[0]}_{SCHEMA[2]}%")
    assert found.to_pylist() == [{"catalog_name": "nyala", "db_schema_name": SCHEMA}]
    assert client.get("CommandGetDbSchemas", catalog="").num_rows == 0
    (flag,) = client.get("CommandGetSqlInfo", info=[SqlInfo.SQL_DDL_SCHEMA]).to_pydict()["value"]
    assert flag is True and "staging" in schemas


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["h_sts", "hosts", "recent", "few", "hosts"]),
        ({"table_types": ["VIEW"]}, ["recent", "few"]),
        ({"table_types": ["TABLE", "VIEW"], "table_name_filter_pattern": "%t_"}, ["h_sts", "hosts", "hosts"]),
        ({"table_name_filter_pattern": "h_sts", "db_schema_filter_pattern": SCHEMA}, ["h_sts", "hosts"]),
        ({"db_schema_filter_pattern": "st_g%"}, ["few", "hosts"]),
        ({"table_name_filter_pattern": "h\\_sts"}, ["h_sts"]),
        ({"db_schema_filter_pattern": "other"}, []),
        ({"catalog": "other"}, []),
    ],
)
def test_tables(client: Client, filters: dict[str, object], expected: list[str]) -> None:
    assert client.get("CommandGetTables", **filters).to_pydict()["table_name"] == expected


def test_system_tables_are_listed_on_request(client: Client) -> None:
    by_schema = client.get("CommandGetTables", db_schema_filter_pattern="pg_catalog").to_pydict()
    assert set(by_schema["table_type"]) == {"SYSTEM TABLE"} and "pg_class" in by_schema["table_name"]
    by_type = client.get("CommandGetTables", table_types=["SYSTEM TABLE"], include_schema=True).to_pylist()
    assert {row["db_schema_name"] for row in by_type} >= {"pg_catalog", "information_schema"}
    (columns,) = [row["table_schema"] for row in by_type if row["table_name"] == "pg_namespace"]
    assert "nspname" in pa.ipc.read_schema(pa.py_buffer(columns)).names


def test_tables_with_their_schemas(client: Client) -> None:
    rows = client.get("CommandGetTables", include_schema=True, table_name_filter_pattern="hosts").to_pylist()
    staged = pa.ipc.read_schema(pa.py_buffer(rows[1]["table_schema"]))
    assert staged.names == ["k", "v"] and staged.field("k").metadata[b"ARROW:FLIGHT:SQL:SCHEMA_NAME"] == b"staging"
    schema = pa.ipc.read_schema(pa.py_buffer(rows[0]["table_schema"]))
    assert schema.names == ["name", "day", "load", "Odd name"]
    assert [field.nullable for field in schema] == [False, False, True, True]
    facts = {key.decode(): value.decode() for key, value in schema.field("Odd name").metadata.items()}
    assert facts["ARROW:FLIGHT:SQL:TYPE_NAME"] == "VARCHAR"
    assert facts["ARROW:FLIGHT:SQL:PRECISION"] == "7"
    assert facts["ARROW:FLIGHT:SQL:TABLE_NAME"] == "hosts"


def test_keys(client: Client) -> None:
    found = client.get("CommandGetPrimaryKeys", table="hosts", db_schema=SCHEMA).to_pylist()
    assert [(row["column_name"], row["key_sequence"]) for row in found] == [("name", 1), ("day", 2)]
    assert client.get("CommandGetPrimaryKeys", table="hosts", db_schema="other").num_rows == 0
    found = client.get("CommandGetPrimaryKeys", table="hosts", db_schema="staging").to_pylist()
    assert [(row["db_schema_name"], row["column_name"]) for row in found] == [("staging", "k")]
    assert client.get("CommandGetPrimaryKeys", table="it's \" none").num_rows == 0
    assert client.get("CommandGetCrossReference", pk_table="hosts", fk_table="hosts").num_rows == 0


def test_sql_info_has_every_fact_and_no_null(client: Client) -> None:
    rows = client.get("CommandGetSqlInfo")
    found = dict(zip(rows.to_pydict()["info_name"], rows.column("value").to_pylist(), strict=True))
    assert set(found) == {int(info) for info in SqlInfo}
    assert None not in found.values()
    assert found[SqlInfo.FLIGHT_SQL_SERVER_NAME] == "nyala"
    assert "abs" in found[SqlInfo.SQL_NUMERIC_FUNCTIONS] and "select" in found[SqlInfo.SQL_KEYWORDS]
    kinds = {info: rows.column("value")[place].type_code for place, info in enumerate(found)}
    assert kinds[SqlInfo.FLIGHT_SQL_SERVER_TRANSACTION] == 3  # ADBC reads the level of transactions as int32 only


def test_sql_info_by_number(client: Client) -> None:
    wanted = [SqlInfo.SQL_IDENTIFIER_QUOTE_CHAR, 99_999, SqlInfo.FLIGHT_SQL_SERVER_READ_ONLY]
    found = client.get("CommandGetSqlInfo", info=wanted).to_pydict()
    assert found == {"info_name": [504, 3], "value": ['"', False]}


def test_xdbc_types(client: Client) -> None:
    rows = client.get("CommandGetXdbcTypeInfo").to_pylist()
    order = [(row["data_type"], row["type_name"]) for row in rows]
    assert order == sorted(order)
    (decimal,) = client.get("CommandGetXdbcTypeInfo", data_type=3).to_pylist()
    assert (decimal["type_name"], decimal["column_size"], decimal["create_params"]) == (
        "DECIMAL",
        38,
        ["precision", "scale"],
    )
    assert XDBC_TYPES.field("nullable").nullable is False
    # Each type can be written in a CREATE TABLE as it is named.
    written = {"DECIMAL": "DECIMAL(9, 2)", "VARCHAR": "VARCHAR(5)"}
    names = [row["type_name"] for row in rows]
    columns = ", ".join(f"c{place} {written.get(name, name)}" for place, name in enumerate(names))
    assert client.update(f"CREATE TABLE all_types (k INT PRIMARY KEY, {columns}); DROP TABLE all_types") == 0


@given(st.text("ab%_\\", max_size=6), st.text("ab%_\\", max_size=6))
def test_patterns_match_as_like_does(pattern: str, name: str) -> None:
    assert catalogs.matcher(pattern)(name) == _like(pattern, name)


def _like(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "%":
        return any(_like(pattern[1:], name[start:]) for start in range(len(name) + 1))
    if pattern[0] == "\\" and len(pattern) > 1:
        return name[:1] == pattern[1] and _like(pattern[2:], name[1:])
    return bool(name) and pattern[0] in ("_", name[0]) and _like(pattern[1:], name[1:])
