"""Alembic: migrations there and back, and an autogenerate that finds what differs and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from nyala.errors import NotSupportedError

ENVIRONMENT = """
from alembic import context
given = context.config.attributes
context.configure(connection=given["connection"], target_metadata=given["metadata"])
with context.begin_transaction():
    context.run_migrations()
"""

FIRST = """
import sqlalchemy as sa
from alembic import op
revision, down_revision = "1", None
def upgrade():
    op.create_table(
        "hosts",
        sa.Column("host", sa.String(20), primary_key=True),
        sa.Column("rack", sa.Integer, server_default="1", comment="where"),
        nyala_distribute_by="HASH (host) INTO 2 BUCKETS", comment="machines")
    op.create_index("ix_rack", "hosts", ["rack"])
def downgrade():
    op.drop_index("ix_rack", "hosts")
    op.drop_table("hosts")
"""

SECOND = """
import sqlalchemy as sa
from alembic import op
revision, down_revision = "2", "1"
def upgrade():
    op.add_column("hosts", sa.Column("since", sa.Date, nyala_encoding="RLE"))
    op.alter_column("hosts", "rack", new_column_name="place", server_default="2", comment="which place")
    op.rename_table("hosts", "machines")
def downgrade():
    op.rename_table("machines", "hosts")
    op.alter_column("hosts", "place", new_column_name="rack", server_default=None)
    op.drop_column("hosts", "since")
"""

FAILING = """
import sqlalchemy as sa
from alembic import op
revision, down_revision = "3", "2"
def upgrade():
    op.create_table("logs", sa.Column("id", sa.Integer, primary_key=True))
    op.bulk_insert(sa.table("logs", sa.column("id", sa.Integer)), [{"id": 1}, {"id": 2}])
    op.add_column("machines", sa.Column("watts", sa.Integer, server_default="5"))
    op.execute("UPDATE machines SET watts = 7 WHERE host = 'n1'")
    op.drop_column("machines", "place")
    op.execute("SELECT 1 FROM no_such_table")
def downgrade():
    pass
"""

METADATA = sa.MetaData()
sa.Table(
    "machines",
    METADATA,
    sa.Column("host", sa.String(20), primary_key=True),
    sa.Column("place", sa.Integer, sa.ForeignKey("machines.host"), index=True, comment="which place"),
    sa.Column("since", sa.Date, unique=True),
    comment="machines",
)


@pytest.fixture
def config(store: sa.Engine, tmp_path: Path) -> Any:
    scripts = tmp_path / "migrations"
    (scripts / "versions").mkdir(parents=True)
    (scripts / "env.py").write_text(ENVIRONMENT)
    (scripts / "versions" / "first.py").write_text(FIRST)
    (scripts / "versions" / "second.py").write_text(SECOND)
    config = Config()
    config.set_main_option("script_location", str(scripts))
    config.set_main_option("path_separator", "os")
    with store.connect() as connection:
        config.attributes.update(connection=connection, metadata=METADATA)
        yield config
        connection.commit()


def columns(config: Config, table: str) -> list[tuple[str, str, Any]]:
    found = sa.inspect(config.attributes["connection"]).get_columns(table)
    return [(column["name"], str(column["type"]), column["default"]) for column in found]


def tables(config: Config) -> list[str]:
    return sa.inspect(config.attributes["connection"]).get_table_names()


def test_there_and_back(config: Config) -> None:
    command.upgrade(config, "1")
    assert columns(config, "hosts") == [("host", "VARCHAR(20)", None), ("rack", "INTEGER", "1")]
    connection = config.attributes["connection"]
    connection.exec_driver_sql("INSERT INTO hosts VALUES ('n1', DEFAULT)")
    command.upgrade(config, "head")
    assert columns(config, "machines") == [
        ("host", "VARCHAR(20)", None), ("place", "INTEGER", "2"), ("since", "DATE", None)
    ]  # fmt: skip
    assert connection.execute(sa.text("SELECT host, place, since FROM machines")).all() == [("n1", 1, None)]
    assert MigrationContext.configure(connection).get_current_revision() == "2"
    command.downgrade(config, "1")
    assert columns(config, "hosts") == [("host", "VARCHAR(20)", None), ("rack", "INTEGER", None)]
    command.downgrade(config, "base")
    assert tables(config) == ["alembic_version"]


def test_a_migration_that_fails_leaves_nothing(config: Config, tmp_path: Path) -> None:
    connection = config.attributes["connection"]
    if not connection.connection.driver_connection.transactional_ddl:
        pytest.skip("DDL is no part of a transaction on a cluster")
    command.upgrade(config, "head")
    connection.exec_driver_sql("INSERT INTO machines VALUES ('n1', 1, NULL)")
    connection.commit()
    before = columns(config, "machines")
    connection.rollback()
    path = tmp_path / "migrations" / "versions" / "third.py"
    path.write_text(FAILING)
    with pytest.raises(sa.exc.ProgrammingError, match="no_such_table"):
        command.upgrade(config, "head")
    connection.rollback()
    assert columns(config, "machines") == before and tables(config) == ["alembic_version", "machines"]
    assert MigrationContext.configure(connection).get_current_revision() == "2"
    connection.rollback()
    path.write_text(FAILING.replace("SELECT 1 FROM no_such_table", "SELECT 1"))
    command.upgrade(config, "head")
    assert connection.execute(sa.text("SELECT * FROM machines")).all() == [("n1", None, 7)]
    assert connection.execute(sa.text("SELECT id FROM logs ORDER BY id")).all() == [(1,), (2,)]
    assert MigrationContext.configure(connection).get_current_revision() == "3"


def test_autogenerate_finds_no_difference(config: Config) -> None:
    command.upgrade(config, "head")
    context = MigrationContext.configure(config.attributes["connection"])
    assert compare_metadata(context, METADATA) == []


def test_autogenerate_finds_what_differs(config: Config) -> None:
    command.upgrade(config, "head")
    wanted = sa.MetaData()
    sa.Table(
        "machines",
        wanted,
        sa.Column("host", sa.String(20), primary_key=True),
        sa.Column("place", sa.BigInteger, comment="where"),
        sa.Column("owner", sa.Text),
    )
    sa.Table("racks", wanted, sa.Column("rack", sa.Integer, primary_key=True))
    context = MigrationContext.configure(config.attributes["connection"])
    found = [
        difference[0] if isinstance(difference, list) else difference
        for difference in compare_metadata(context, wanted)
    ]
    assert {difference[0] for difference in found} == {
        "add_table", "add_column", "remove_column", "modify_type", "remove_table_comment"
    }  # fmt: skip


def test_what_alter_table_cannot_do_is_refused(store: sa.Engine) -> None:
    with store.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
        operations = Operations(MigrationContext.configure(connection))
        with pytest.raises(sa.exc.NotSupportedError) as found:
            operations.alter_column("t", "v", type_=sa.BigInteger())
        assert isinstance(found.value.orig, NotSupportedError)
        with pytest.raises(sa.exc.NotSupportedError):
            operations.alter_column("t", "v", nullable=False)


DEFAULTS: dict[str, tuple[Any, Any, Any]] = {  # type, default, another one
    "balance": (sa.Numeric(10, 2), "0", "0.01"),
    "ok": (sa.Boolean, sa.true(), sa.false()),
    "code": (sa.String(20), "x", "X"),
    "quoted": (sa.String(20), "it's", "its"),
    "number": (sa.Integer, "7", "8"),
    "expression": (sa.Integer, sa.text("8"), sa.text("8 + 1")),
    "day": (sa.Date, "2026-01-01", "2026-01-02"),
    "moment": (sa.DateTime, "2026-01-01 00:00", "2026-01-01 00:01"),
    "text": (sa.Text, sa.text("'it'"), sa.text("'IT'")),
    "ratio": (sa.Float, "0", "0.5"),
    "large": (sa.Numeric(38, 0), "99999999999999999999999999999999999999", "0"),
    "raw": (sa.LargeBinary, sa.text("x'00ff'"), sa.text("x'00fe'")),
}


def with_defaults(choice: int) -> sa.MetaData:
    metadata = sa.MetaData()
    columns = [sa.Column(name, row[0], server_default=row[choice]) for name, row in DEFAULTS.items()]
    sa.Table("t", metadata, sa.Column("k", sa.Integer, primary_key=True, autoincrement=False), *columns)
    return metadata


def test_defaults_are_compared_as_values(store: sa.Engine) -> None:
    with_defaults(1).create_all(store)
    with store.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True, "compare_type": True})
        assert compare_metadata(context, with_defaults(1)) == []
        found: Any = compare_metadata(context, with_defaults(2))
        assert {(kind, name) for ((kind, _, _, name, *_),) in found} == {("modify_default", name) for name in DEFAULTS}


def test_a_default_that_came_or_went_is_a_difference(store: sa.Engine) -> None:
    with_defaults(1).create_all(store)
    wanted = sa.MetaData()
    columns = [sa.Column(name, row[0]) for name, row in DEFAULTS.items()]
    key = sa.Column("k", sa.Integer, primary_key=True, autoincrement=False, server_default="1")
    sa.Table("t", wanted, key, *columns)
    with store.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        found: Any = compare_metadata(context, wanted)
        assert {difference[3] for (difference,) in found} == {"k", *DEFAULTS}
