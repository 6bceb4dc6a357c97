"""Text of compiled statements: names, nyala's own constructs, tables and their options, numbers."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
import sqlalchemy as sa
from nyala.driver.sqlalchemy import as_of, insert, upsert
from nyala.driver.sqlalchemy.compiler import NyalaIdentifierPreparer
from nyala.sql.syntax.dialect import NyalaTokenizer
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql.base import RESERVED_WORDS

WORDS = sorted(
    {word.lower() for phrase in NyalaTokenizer.KEYWORDS for word in phrase.split() if word.isidentifier()}
    | RESERVED_WORDS
)


def columns(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Integer, primary_key=place == 0) for place, name in enumerate(names)]


@pytest.fixture
def hosts(engine: sa.Engine) -> sa.Table:
    table = sa.Table(
        "hosts", sa.MetaData(), sa.Column("host", sa.String, primary_key=True), sa.Column("rack", sa.Integer)
    )
    table.create(engine)
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"host": "n1", "rack": 1}, {"host": "n2", "rack": 2}])
    return table


def test_every_word_may_be_a_name(engine: sa.Engine) -> None:
    assert {"select", "check", "primary"} <= NyalaIdentifierPreparer.reserved_words
    names = [*WORDS, "Mixed", "with space", 'with "quotes"', "100%", "ünïcode", "a.b", "x:y"]
    with engine.begin() as connection:
        for start in range(0, len(names), 100):
            part = names[start : start + 100]
            table = sa.Table(f"t{start}", sa.MetaData(), *columns(*part))
            table.create(connection)
            connection.execute(table.insert(), dict.fromkeys(part, 1))
            assert connection.execute(sa.select(*[column.label(column.name) for column in table.c])).one() == (
                1,
            ) * len(part)
            alias = table.alias("order")
            assert connection.scalar(sa.select(alias.c[part[-1]]).where(alias.c[part[0]] == 1)) == 1
        for name in names[-20:]:
            table = sa.Table(name, sa.MetaData(), *columns("k"))
            table.create(connection)
            assert sa.inspect(connection).has_table(name)
            table.drop(connection)


def test_on_conflict(engine: sa.Engine, hosts: sa.Table) -> None:
    statement = insert(hosts).values([{"host": "n1", "rack": 10}, {"host": "n3", "rack": 3}])
    changing = statement.on_conflict_do_update(
        set_={"rack": hosts.c.rack + statement.excluded.rack}, where=hosts.c.rack < 100
    )
    with engine.begin() as connection:
        assert connection.execute(changing.returning(hosts.c.host, hosts.c.rack)).all() == [("n1", 11), ("n3", 3)]
        assert connection.execute(statement.on_conflict_do_nothing()).rowcount == 0
        assert connection.execute(statement.on_conflict_do_nothing(index_elements=["host"])).rowcount == 0
        constant = insert(hosts).on_conflict_do_update(index_elements=[hosts.c.host], set_={hosts.c.rack: 0})
        connection.execute(constant, [{"host": "n1", "rack": 5}, {"host": "n4", "rack": 4}])
        assert connection.execute(sa.select(hosts).order_by(hosts.c.host)).all() == [
            ("n1", 0), ("n2", 2), ("n3", 3), ("n4", 4)
        ]  # fmt: skip
    with pytest.raises(ValueError, match="names no column"):
        statement.on_conflict_do_update(set_={})


def test_upsert(engine: sa.Engine, hosts: sa.Table) -> None:
    with engine.begin() as connection:
        connection.execute(upsert(hosts), [{"host": "n1", "rack": 7}, {"host": "n9", "rack": 9}])
        returned = connection.execute(upsert(hosts).values(host="n9", rack=None).returning(hosts))
        assert returned.all() == [("n9", None)]
        chosen = sa.select(hosts.c.host, sa.literal(5)).cte("chosen")
        connection.execute(upsert(hosts).from_select(["host", "rack"], sa.select(chosen).where(chosen.c.host < "n2")))
        assert connection.execute(sa.select(hosts).order_by(hosts.c.host)).all() == [("n1", 5), ("n2", 2), ("n9", None)]


def test_the_past(engine: sa.Engine, hosts: sa.Table) -> None:
    with engine.begin() as connection:
        then = connection.scalar(sa.select(sa.func.now()))
    with engine.begin() as connection:
        connection.execute(hosts.update().values(rack=hosts.c.rack + 100))
        for time in (then, f"{then}", sa.literal(then)):
            old = as_of(hosts, time, name="old")
            query = sa.select(old.c.rack, hosts.c.rack).join(hosts, hosts.c.host == old.c.host).order_by(old.c.rack)
            assert connection.execute(query).all() == [(1, 101), (2, 102)]
        # Two moments are two statements, not one that is kept under the same key.
        for time, racks in ((then, [1, 2]), (then + datetime.timedelta(seconds=-60), []), (sa.func.now(), [101, 102])):
            then_table = as_of(hosts, time)
            assert connection.scalars(sa.select(then_table.c.rack).order_by(then_table.c.rack)).all() == racks
        hinted = sa.select(hosts.c.rack).with_hint(hosts, f"FOR SYSTEM_TIME AS OF '{then}'").order_by(hosts.c.rack)
        assert connection.scalars(hinted).all() == [1, 2]


def distinct_on(query: Any, column: Any) -> Any:
    """As SQLAlchemy 2.1 has it, or 2.0."""
    return query.ext(postgresql.distinct_on(column)) if hasattr(query, "ext") else query.distinct(column)


def test_what_is_written_for_common_queries(engine: sa.Engine, hosts: sa.Table) -> None:
    parity = hosts.c.rack % 2
    total = sa.func.sum(hosts.c.rack).over(order_by=hosts.c.host, rows=(None, 0))
    steps = sa.select(sa.literal(1).label("n")).cte("steps", recursive=True)
    steps = steps.union_all(sa.select(steps.c.n + 1).where(steps.c.n < 4))
    queries: list[tuple[Any, list[tuple[Any, ...]]]] = [
        (sa.select(hosts.c.host, total).order_by(hosts.c.host), [("n1", 1), ("n2", 3)]),
        (sa.select(sa.func.count()).select_from(steps), [(4,)]),
        (sa.select(hosts.c.host).order_by(hosts.c.host).offset(1), [("n2",)]),
        (sa.select(hosts.c.host).order_by(hosts.c.host.desc()).fetch(1), [("n2",)]),
        (distinct_on(sa.select(hosts.c.rack), parity).order_by(parity, hosts.c.rack.desc()), [(2,), (1,)]),
        (sa.select(hosts.c.host).where(hosts.c.host.contains("N_", autoescape=True)), []),
        (sa.select(hosts.c.host).where(hosts.c.host.icontains("N1")), [("n1",)]),
        (sa.select(hosts.c.host).where(hosts.c.host.regexp_match("^N2$", flags="i")), [("n2",)]),
        (sa.select(hosts.c.host).where(hosts.c.rack.in_([])), []),
        (sa.select(sa.literal(7) / sa.literal(2), sa.literal(7) // sa.literal(2)), [(3.5, 3)]),
        (sa.select(sa.func.aggregate_strings(hosts.c.host, "+")), [("n1+n2",)]),
        (sa.select(hosts.c.rack.bitwise_xor(3)).order_by(hosts.c.host), [(2,), (1,)]),
    ]
    with engine.connect() as connection:
        for query, expected in queries:
            assert connection.execute(query).all() == expected, str(query)


def test_tables_and_their_options(engine: sa.Engine) -> None:
    metadata = sa.MetaData()
    sa.Table(
        "metrics",
        metadata,
        sa.Column("value", sa.Double, nullable=False, nyala_immutable=True),
        sa.Column("ts", sa.DateTime, primary_key=True),
        sa.Column("host", sa.String, primary_key=True),
        sa.Column("unit", sa.String, server_default="it's", nyala_encoding="dict", comment="50% of 'it'"),
        sa.Column("note", sa.String, nyala_compression="ZSTD", nyala_block_size=65536),
        sa.PrimaryKeyConstraint("host", "ts", name="ignored"),
        nyala_distribute_by="HASH (host) INTO 4 BUCKETS",
        comment="a table",
    )
    sa.Table("visits", metadata, *[sa.Column(name, sa.Integer) for name in "xyz"], nyala_non_unique_key=["z", "x"])
    sa.Table("heap", metadata, sa.Column("x", sa.Double))
    metadata.create_all(engine)
    inspector = sa.inspect(engine)
    assert inspector.get_table_names() == ["heap", "metrics", "visits"]
    assert inspector.get_pk_constraint("metrics")["constrained_columns"] == ["host", "ts"]
    assert inspector.get_pk_constraint("visits")["constrained_columns"] == []
    assert [column["name"] for column in inspector.get_columns("visits")] == ["z", "x", "y"]
    assert [column["name"] for column in inspector.get_columns("heap")] == ["x"]
    assert inspector.get_table_comment("metrics") == {"text": "a table"}
    assert inspector.get_columns("metrics")[3]["comment"] == "50% of 'it'"
    assert inspector.get_table_options("visits") == {"nyala_non_unique_key": ["z", "x"]}
    with engine.connect() as connection:
        shown = {t: connection.exec_driver_sql(f"SHOW CREATE TABLE {t}").scalar_one() for t in metadata.tables}
        for clause in (
            "NOT NULL IMMUTABLE",
            "ENCODING DICT",
            "COMPRESSION ZSTD BLOCK_SIZE 65536",
            "HASH (host) INTO 4",
        ):
            assert clause in shown["metrics"]
        assert "NON UNIQUE PRIMARY KEY (z, x)" in shown["visits"]
        # Reflected, they can be made again; what only the storage cares about is not reflected.
        reflected = sa.MetaData()
        reflected.reflect(connection)
        reflected.drop_all(connection)
        reflected.create_all(connection)
        for name in ("visits", "heap"):
            assert connection.exec_driver_sql(f"SHOW CREATE TABLE {name}").scalar_one() == shown[name]
        assert "HASH (host) INTO 4 BUCKETS" in connection.exec_driver_sql("SHOW CREATE TABLE metrics").scalar_one()


def test_comments_change(engine: sa.Engine, hosts: sa.Table) -> None:
    hosts.comment, hosts.c.rack.comment = "machines", "where"
    with engine.begin() as connection:
        connection.execute(sa.schema.SetTableComment(hosts))
        connection.execute(sa.schema.SetColumnComment(hosts.c.rack))
        assert sa.inspect(connection).get_table_comment("hosts") == {"text": "machines"}
        assert sa.inspect(connection).get_columns("hosts")[1]["comment"] == "where"
        connection.execute(sa.schema.DropTableComment(hosts))
        assert sa.inspect(connection).get_table_comment("hosts") == {"text": None}


def test_views(engine: sa.Engine, hosts: sa.Table) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE VIEW racks (rack, hosts) AS SELECT rack, count(*) FROM hosts GROUP BY rack")
    inspector = sa.inspect(engine)
    assert inspector.get_view_names() == ["racks"] and inspector.get_table_names() == ["hosts"]
    assert inspector.get_view_definition("racks") == "SELECT rack, COUNT(*) FROM hosts GROUP BY rack"
    assert inspector.has_table("racks") and not inspector.has_table("nothing")
    assert not inspector.has_table("hosts", schema="elsewhere")
    view = sa.Table("racks", sa.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        assert connection.execute(sa.select(view.c.hosts)).scalars().all() == [1, 1]
    with pytest.raises(sa.exc.NoSuchTableError):
        inspector.get_columns("nothing")


def test_numbers_start_anew_with_the_table(engine: sa.Engine) -> None:
    table = sa.Table("t", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("v", sa.Integer))
    with engine.begin() as connection:
        for _ in range(2):
            table.create(connection)
            connection.execute(table.insert(), {"id": 41, "v": 0})
            assert connection.execute(table.insert(), {"v": 1}).inserted_primary_key == (42,)
            connection.execute(table.insert().values([{"v": 2}, {"v": 3}]))
            assert connection.scalars(sa.select(table.c.id).order_by(table.c.id)).all() == [41, 42, 43, 44]
            table.drop(connection)


def test_a_number_that_is_taken_is_an_error(engine: sa.Engine) -> None:
    table = sa.Table("t", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True))
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(table.insert())
        connection.execute(table.insert(), {"id": 2})
        with pytest.raises(sa.exc.IntegrityError):
            connection.execute(table.insert())
        assert connection.execute(table.insert()).inserted_primary_key == (3,)
