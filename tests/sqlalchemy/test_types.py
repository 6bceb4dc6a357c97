"""Every type there and back: values, reflection, and what Alembic thinks of it."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from nyala.driver.sqlalchemy import INTERVAL, TINYINT

UTC = datetime.UTC
NOON = datetime.datetime(2026, 1, 31, 12, 0, 0, 123456)


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


CASES: list[tuple[str, sa.types.TypeEngine[Any], Any, str]] = [
    ("tiny", TINYINT(), -128, "TINYINT"),
    ("small", sa.SmallInteger(), 32767, "SMALLINT"),
    ("whole", sa.Integer(), -(2**31), "INT"),
    ("big", sa.BigInteger(), 2**63 - 1, "BIGINT"),
    ("float_", sa.Float(), 0.1, "DOUBLE"),
    ("float_23", sa.Float(23), 0.5, "FLOAT"),
    ("real_", sa.REAL(), 1.25, "FLOAT"),
    ("double_", sa.Double(), 1e300, "DOUBLE"),
    ("digits", sa.Numeric(12, 4), decimal.Decimal("12345678.9012"), "DECIMAL(12,4)"),
    ("plain", sa.Numeric(), decimal.Decimal("-1.0000000005"), "DECIMAL(38,10)"),
    ("coarse", sa.Numeric(6, 2, asdecimal=False), 1234.25, "DECIMAL(6,2)"),
    ("text_", sa.Text(), "naïve 🦌", "STRING"),
    ("short", sa.String(7), "'quote'", "VARCHAR(7)"),
    ("free", sa.String(), "", "STRING"),
    ("bytes_", sa.LargeBinary(), b"\x00\xff", "BINARY"),
    ("flag", sa.Boolean(), True, "BOOLEAN"),
    ("day", sa.Date(), datetime.date(1, 1, 1), "DATE"),
    ("moment", sa.DateTime(), NOON, "TIMESTAMP"),
    ("zoned", sa.DateTime(timezone=True), NOON.replace(tzinfo=UTC), "TIMESTAMP"),
    ("clock", sa.Time(), datetime.time(1, 2, 3, 4), "VARCHAR(15)"),
    ("doc", sa.JSON(), {"a": [1, None, "é"]}, "STRING"),
    ("id", sa.Uuid(), uuid.UUID(int=7), "VARCHAR(32)"),
    ("color", sa.Enum(Color), Color.BLUE, "VARCHAR(4)"),
]


@pytest.fixture
def table() -> sa.Table:
    columns = [sa.Column(name, type_) for name, type_, _, _ in CASES]
    return sa.Table("every", sa.MetaData(), sa.Column("key", sa.Integer, primary_key=True), *columns)


def test_values_and_types_come_back(engine: sa.Engine, table: sa.Table) -> None:
    values = {name: value for name, _, value, _ in CASES}
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(table.insert(), [{"key": 1, **values}, {"key": 2, **dict.fromkeys(values)}])
        rows = connection.execute(sa.select(table).order_by(table.c.key)).all()
        assert rows[0]._asdict() == {"key": 1, **values}
        assert set(rows[1][1:]) == {None}
        for name, value in values.items():
            if not isinstance(value, dict):
                assert connection.scalars(sa.select(table.c.key).where(table.c[name] == value)).all() == [1], name
        created = connection.exec_driver_sql("SHOW CREATE TABLE every").scalar_one()
    shown = dict(line.strip().split(" ", 1) for line in created.splitlines()[2:-2])
    assert {name.strip('"'): type_.split(" NULL")[0] for name, type_ in shown.items()} == {c[0]: c[3] for c in CASES}


def test_reflected_types_make_the_same_table(engine: sa.Engine, table: sa.Table) -> None:
    with engine.begin() as connection:
        table.create(connection)
        assert compare_metadata(MigrationContext.configure(connection), table.metadata) == []
        reflected = sa.Table("every", sa.MetaData(), autoload_with=connection)
        before = connection.exec_driver_sql("SHOW CREATE TABLE every").scalar_one()
        table.drop(connection)
        reflected.create(connection)
        assert connection.exec_driver_sql("SHOW CREATE TABLE every").scalar_one() == before


def test_literals_mean_the_values(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        for name, type_, value, _ in CASES:
            if name not in ("coarse", "doc", "zoned"):
                query = sa.select(sa.literal(value, type_, literal_execute=True))
                assert connection.scalar(query) == value, name


def test_moments_with_a_zone_are_kept_in_utc(engine: sa.Engine) -> None:
    table = sa.Table("t", sa.MetaData(), sa.Column("k", sa.Integer, primary_key=True), sa.Column("at", sa.DateTime))
    tokyo = datetime.timezone(datetime.timedelta(hours=9))
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(table.insert(), {"k": 1, "at": NOON.replace(tzinfo=tokyo)})
        assert connection.scalar(sa.select(table.c.at)) == NOON - datetime.timedelta(hours=9)


def test_intervals_live_in_expressions_only(engine: sa.Engine) -> None:
    span = datetime.timedelta(days=1, microseconds=-1)
    with engine.connect() as connection:
        assert connection.scalar(sa.select(sa.literal(NOON) + span)) == NOON + span
        assert connection.scalar(sa.select(sa.cast("1 day", INTERVAL))) == datetime.timedelta(days=1)
        assert connection.scalar(sa.select(sa.literal(span, literal_execute=True))) == span
        with pytest.raises(sa.exc.CompileError, match="no column can be an INTERVAL"):
            sa.Table("t", sa.MetaData(), sa.Column("i", sa.Interval)).create(connection)


@pytest.mark.parametrize("type_", [sa.ARRAY(sa.Integer), sa.Time()])
def test_what_has_no_place_is_refused(engine: sa.Engine, type_: Any) -> None:
    table = sa.Table("t", sa.MetaData(), sa.Column("k", sa.Integer, primary_key=True), sa.Column("v", type_))
    value = datetime.time(1, tzinfo=UTC)
    with engine.begin() as connection, pytest.raises((sa.exc.StatementError, sa.exc.CompileError)):
        table.create(connection)
        connection.execute(table.insert(), {"k": 1, "v": value})
