"""SET, RESET and SHOW."""

from __future__ import annotations

from typing import Any

import nyala
import pytest
from nyala.errors import NotSupportedError, OperationalError, StatementError
from nyala.executor.run.memory import default_limit
from nyala.sql.settings import SETTINGS, parse_bytes, show_bytes


def shown(connection: Any, name: str) -> str:
    ((value,),) = connection.execute(f"SHOW {name}").fetchall()
    return str(value)


def test_set_show_reset(connection: Any) -> None:
    assert shown(connection, "threads") == "2"
    connection.execute("SET threads = 1")
    assert shown(connection, "threads") == "1"
    connection.execute("SET memory_limit TO '64 MB'; SET SESSION threads TO '3'")
    assert (shown(connection, "threads"), shown(connection, "memory_limit")) == ("3", "64MB")
    connection.execute("RESET threads")
    connection.execute("SET memory_limit = DEFAULT")
    assert (shown(connection, "threads"), shown(connection, "memory_limit")) == ("2", show_bytes(default_limit() or 0))
    connection.execute("SET threads = ?", [4])
    connection.execute("RESET ALL")
    assert shown(connection, "threads") == "2"


def test_a_memory_limit_is_kept(connection: Any) -> None:
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, s STRING)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(i, f"{i:0100d}") for i in range(2000)])
    connection.execute("SET memory_limit = '10KB'")
    assert len(connection.execute("SELECT s, count(*) FROM t GROUP BY s").fetchall()) == 2000
    with pytest.raises(OperationalError, match="memory_limit"):
        connection.execute("SELECT length(string_agg(s, ',')) FROM t").fetchall()
    connection.execute("SET memory_limit = none")
    assert len(connection.execute("SELECT s, count(*) FROM t GROUP BY s ORDER BY s").fetchall()) == 2000


def test_settings_belong_to_a_connection(tmp_path: Any) -> None:
    with (
        nyala.connect(tmp_path, history_seconds=60) as one,
        nyala.connect(tmp_path, threads=3, history_seconds=60) as other,
    ):
        one.execute("SET threads = 1")
        assert (shown(one, "threads"), shown(other, "threads")) == ("1", "3")
        assert shown(one, "history_seconds") == "60"


def test_show_all_lists_every_setting(connection: Any) -> None:
    cursor = connection.execute("SHOW ALL")
    assert [column[0] for column in cursor.description] == ["name", "value", "type", "range", "description"]
    assert [row[0] for row in cursor.fetchall()] == sorted(
        name for name, setting in SETTINGS.items() if not setting.foreign
    )
    assert connection.execute("SHOW SETTINGS").fetchall() == connection.execute("SHOW ALL").fetchall()


def test_the_time_zone_is_utc(connection: Any) -> None:
    connection.execute("SET TIME ZONE 'UTC'")
    assert shown(connection, "TIME ZONE") == "UTC"
    with pytest.raises(NotSupportedError, match="the time zone is UTC and cannot be set to Europe/Berlin"):
        connection.execute("SET timezone = 'Europe/Berlin'")


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many", "NULL", "2000", "true"])
def test_threads_are_a_count(connection: Any, value: str) -> None:
    with pytest.raises(StatementError):
        connection.execute(f"SET threads = {value}")
    assert shown(connection, "threads") == "2"


@pytest.mark.parametrize("size", [1, 1000, 1024, 1536 << 20, 1 << 40])
def test_bytes_are_read_as_they_are_shown(size: int) -> None:
    assert parse_bytes(show_bytes(size)) == size
