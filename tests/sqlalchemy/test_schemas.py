"""Tables of several schemas, and temporary tables, by SQLAlchemy and pandas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sa: Any = pytest.importorskip("sqlalchemy")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Any]:
    engine = sa.create_engine(f"nyala:///{tmp_path}/store")
    with engine.begin() as connection:
        for name in ("other", "Third"):
            connection.execute(sa.schema.CreateSchema(name))
        yield connection
    engine.dispose()


def table(name: str = "t", schema: str | None = None, **options: Any) -> Any:
    columns = sa.Column("id", sa.Integer, primary_key=True), sa.Column("v", sa.String(5), comment="a word")
    return sa.Table(name, sa.MetaData(), *columns, schema=schema, **options)


def rows(connection: Any, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(sa.text(text))]


def test_a_table_with_a_schema_is_made_written_and_read(connection: Any) -> None:
    other, own = table(schema="other", comment="theirs"), table()
    for each in (other, own):
        each.create(connection)
    connection.execute(other.insert(), [{"v": "a"}, {"v": "b"}])
    assert connection.execute(other.insert().values(v="c")).inserted_primary_key == (3,)
    assert connection.execute(own.insert().values(v="x")).inserted_primary_key == (1,)
    changed = other.update().where(other.c.id == 1).values(v="z").returning(other.c.v)
    assert connection.execute(changed).scalars().all() == ["z"]
    assert connection.execute(other.delete().where(other.c.v == "b")).rowcount == 1
    joined = sa.select(other.c.v, own.c.v).join(own, own.c.id == other.c.id)
    assert connection.execute(joined).fetchall() == [("z", "x")]
    other.drop(connection)
    assert sa.inspect(connection).get_table_names(schema="other") == []
    assert rows(connection, "SELECT v FROM t") == [("x",)]


def test_reflection_of_a_schema(connection: Any) -> None:
    table(schema="other", comment="theirs").create(connection)
    table("T", schema="Third").create(connection)
    connection.execute(sa.text("CREATE VIEW other.w AS SELECT v FROM other.t"))
    inspector = sa.inspect(connection)
    assert {"other", "Third", "public"} < set(inspector.get_schema_names())
    assert inspector.default_schema_name == "public"
    assert inspector.get_table_names() == [] and inspector.get_table_names(schema="Third") == ["T"]
    assert inspector.get_view_names(schema="other") == ["w"]
    assert inspector.get_view_definition("w", schema="other") == "SELECT v FROM other.t"
    assert inspector.has_table("t", schema="other") and not inspector.has_table("t")
    metadata = sa.MetaData()
    metadata.reflect(connection, schema="other", views=True)
    assert set(metadata.tables) == {"other.t", "other.w"}
    found = metadata.tables["other.t"]
    assert (found.comment, found.c.v.comment, found.primary_key.columns.keys()) == ("theirs", "a word", ["id"])
    assert connection.execute(sa.select(found)).fetchall() == []


def test_a_schema_translate_map_redirects_all_statements(connection: Any) -> None:
    made = table()
    there = connection.execution_options(schema_translate_map={None: "Third"})
    made.create(there)
    there.execute(made.insert(), [{"v": "a"}, {"v": "b"}])
    there.execute(made.insert().values(v="c"))
    assert there.execute(sa.select(made.c.id, made.c.v).order_by(made.c.id)).fetchall() == [
        (1, "a"), (2, "b"), (3, "c")
    ]  # fmt: skip
    assert rows(there, 'SELECT count(*) FROM "Third".t') == [(3,)]
    assert sa.inspect(there).get_table_names() == []


def test_numbers_of_keys_go_on_whatever_the_search_path_is(connection: Any) -> None:
    other = table(schema="other")
    other.create(connection)
    connection.execute(other.insert().values(v="a"))
    connection.execute(sa.text("SET search_path TO other"))
    # In another process this would be the first row.
    from nyala.driver.sqlalchemy import numbering

    numbering._blocks.clear()
    assert connection.execute(table().insert().values(v="b")).inserted_primary_key[0] > 1
    # It is made beside the transaction, which does not see it.
    store = connection.connection.driver_connection.session.transactions.store
    assert [found.name for found in store.tables() if "_nyala" in found.name] == ["_nyala_numbers"]


def test_temporary_tables_hide_others_and_have_numbers_of_their_own(connection: Any) -> None:
    own = table()
    own.create(connection)
    connection.execute(own.insert().values(id=100, v="far"))
    temporary = table(prefixes=["TEMPORARY"])
    connection.execute(sa.schema.CreateTable(temporary))
    connection.execute(temporary.insert(), [{"v": "a"}, {"v": "b"}])
    assert connection.execute(sa.select(temporary.c.id)).scalars().all() == [1, 2]
    assert connection.execute(table(schema="public").insert().values(v="b")).inserted_primary_key[0] > 100
    assert connection.execute(temporary.insert().values(v="c")).inserted_primary_key == (3,)
    inspector = sa.inspect(connection)
    assert inspector.get_temp_table_names() == ["t"] == inspector.get_table_names()
    connection.execute(sa.text("CREATE TEMPORARY TABLE only (k DATE PRIMARY KEY)"))
    inspector = sa.inspect(connection)
    assert inspector.has_table("only") and not inspector.has_table("only", schema="public")
    assert [str(column["type"]) for column in inspector.get_columns("only")] == ["DATE"]
    assert inspector.get_pk_constraint("only")["constrained_columns"] == ["k"]


def test_pandas_writes_and_reads_a_schema(connection: Any) -> None:
    pandas: Any = pytest.importorskip("pandas")
    for numbers, mode in (([1, 2], "fail"), ([3], "append")):
        pandas.DataFrame({"a": numbers}).to_sql("f", connection, schema="other", index=False, if_exists=mode)
    with pytest.raises(ValueError, match="exists"):
        pandas.DataFrame({"a": [1]}).to_sql("f", connection, schema="other", index=False)
    assert sorted(pandas.read_sql_table("f", connection, schema="other").a) == [1, 2, 3]
    pandas.DataFrame({"b": [4]}).to_sql("f", connection, schema="other", index=False, if_exists="replace")
    assert rows(connection, "SELECT b FROM other.f") == [(4,)]
    assert not sa.inspect(connection).has_table("f")
