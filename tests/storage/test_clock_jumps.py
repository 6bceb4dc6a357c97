"""Clocks that jump under an embedded store: what is shown, what is kept, what is said."""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Callable, Iterator

import nyala
import pytest
from nyala.errors import ClockOutOfRange
from nyala.model.steady_clock import SteadyClock
from nyala.storage.database import Database
from tablet_support import definition, insert

DAY = 86_400.0


class Wall:
    """The machine's clock, which tests set."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self._true = time.time_ns

    def __call__(self) -> int:
        return self._true() + int(self.ahead * 1e9)

    def now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self() / 1e9, datetime.UTC).replace(tzinfo=None)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    found = Wall()
    monkeypatch.setattr(time, "time_ns", found)
    return found


@pytest.fixture
def opened(tmp_path) -> Iterator[Callable[[], nyala.Connection]]:
    made: list[nyala.Connection] = []

    def connect() -> nyala.Connection:
        for connection in made:
            connection.close()
        made.append(nyala.connect(tmp_path / "db"))
        return made[-1]

    yield connect
    made[-1].close()


def shown(connection: nyala.Connection) -> datetime.datetime:
    return connection.execute("SELECT now()").fetchone()[0]


def value(connection: nyala.Connection, clause: str = "") -> list[int]:
    return [v for (v,) in connection.execute(f"SELECT v FROM t {clause}").fetchall()]


def test_a_clock_that_was_ahead_once_stays_out_of_sight(opened, wall, caplog):
    caplog.set_level(logging.WARNING, "nyala.storage")
    connection = opened()
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT, at TIMESTAMP)")
    connection.execute("INSERT INTO t VALUES (1, 1, now())")
    connection.execute("UPDATE t SET v = 2")
    moment = wall.now()
    wall.ahead = 60 * DAY
    connection.execute("UPDATE t SET v = 3")
    connection.execute("COMPACT TABLE t")
    assert value(connection, f"FOR SYSTEM_TIME AS OF TIMESTAMP '{moment}'") == [2], "the jump took no history"
    assert "has jumped ahead by 5184000 seconds" in caplog.text
    caplog.clear()
    wall.ahead = 0.0
    for _ in range(3):
        connection.execute("UPDATE t SET v = 4, at = now()")
        assert "seconds ahead of this machine's clock" in caplog.text
        assert abs(shown(connection) - wall.now()) < datetime.timedelta(seconds=20)
        (at,) = connection.execute("SELECT at FROM t").fetchone()
        assert abs(at - wall.now()) < datetime.timedelta(seconds=20)
        assert value(connection, f"FOR SYSTEM_TIME AS OF {connection.last_timestamp}") == [4]
        assert value(connection, f"FOR SYSTEM_TIME AS OF TIMESTAMP '{moment}'") == [2]
        assert value(connection, "FOR SYSTEM_TIME AS OF now()") == [2]
        caplog.clear()
        connection = opened()  # which says it again


def test_one_statement_sees_one_time(opened, wall):
    connection = opened()
    wall.ahead = DAY
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    wall.ahead = 0.0
    for _ in range(20):
        a, b, c = connection.execute("SELECT now(), CURRENT_TIMESTAMP, (SELECT now())").fetchone()
        assert a == b == c


def test_tables_written_anew_are_out_of_it(opened, wall, tmp_path, caplog):
    wall.ahead = 60 * DAY
    connection = opened()
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1), (2, 2)")
    wall.ahead = 0.0
    connection.execute(f"COPY t TO '{tmp_path / 't.parquet'}'")
    (text,) = connection.execute("SHOW CREATE TABLE t").fetchone()[-1:]
    caplog.clear()
    with nyala.connect(tmp_path / "new") as new:
        new.execute(text)
        new.execute(f"COPY t FROM '{tmp_path / 't.parquet'}'")
        assert value(new, "FOR SYSTEM_TIME AS OF now() ORDER BY k") == [1, 2]
    assert "ahead of this machine's clock" not in caplog.text


@pytest.mark.parametrize("back", [2 * DAY, 50 * 365 * DAY])
def test_a_clock_that_is_set_back_harms_nothing(opened, wall, back):
    connection = opened()
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1)")
    first = connection.last_timestamp
    wall.ahead = -back
    connection.execute("UPDATE t SET v = 2")
    assert first < connection.last_timestamp
    assert value(connection, f"FOR SYSTEM_TIME AS OF {first}") == [1]
    assert value(opened()) == [2]


@pytest.mark.parametrize("year", [2041, 2111])
def test_timestamps_beyond_63_bits_are_shown_and_taken(opened, wall, year):
    connection = opened()
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT) PARTITION BY HASH (k) PARTITIONS 3")
    connection.execute("INSERT INTO t VALUES (1, 1), (2, 1), (3, 1)")
    wall.ahead = (datetime.datetime(year, 6, 1) - wall.now()).total_seconds()
    connection.execute("UPDATE t SET v = 2")
    times = [connection.last_timestamp]
    connection.execute("UPSERT INTO t VALUES (1, 3)")
    times.append(connection.last_timestamp)
    assert 1 << 63 < times[0] < times[1] < 1 << 64
    for _ in range(2):
        for step in ("SELECT 1", "COMPACT TABLE t"):
            connection.execute(step)
            text = "SELECT _changed_at, k, v FROM t FOR SYSTEM_TIME BETWEEN 0 AND now()"
            first, second = (
                connection.execute(f"SELECT DISTINCT _changed_at FROM ({text}) AS c ORDER BY 1")
            ).fetchall()[1:]
            assert 1 << 63 < first[0] <= times[0] < second[0] <= times[1]
            later = connection.execute(
                f"{text} WHERE _changed_at >= {first[0]} ORDER BY _changed_at DESC, k"
            ).fetchall()
            assert later == [(second[0], 1, 3), *((first[0], k, 2) for k in (1, 2, 3))]
            (found,) = connection.execute(f"SELECT max(_changed_at) FROM ({text}) AS c").fetchone()
            for moment in (times[1], found):
                as_of = "SELECT v FROM t FOR SYSTEM_TIME AS OF ? ORDER BY k"
                assert connection.execute(as_of, (moment,)).fetchall() == [(3,), (2,), (2,)]
            assert value(connection, f"FOR SYSTEM_TIME AS OF {times[0]} ORDER BY k") == [2, 2, 2]
            with connection.at(times[0]) as then:
                assert value(then, "ORDER BY k") == [2, 2, 2]
            changes = connection.table("t").changes(times[0]).to_arrow()
            assert [int(at) for at in changes["_changed_at"].to_pylist()] == [second[0]]
        connection = opened()


def test_a_time_beyond_all_timestamps_is_refused_by_name(wall):
    with Database(":memory:", background=False) as db:
        table = db.create_table(definition())
        insert(db, table, [1])
        wall.ahead = (datetime.datetime(2200, 1, 1) - wall.now()).total_seconds()
        for action in (lambda: insert(db, table, [2]), lambda: db.write_row(table, 1, {"k": 3}), db.now):
            with pytest.raises(ClockOutOfRange, match=r"shows 2200-01-01 .* end on 2112-09-17"):
                action()
        wall.ahead = 0.0
        insert(db, table, [2])


# ---- the time that history is forgotten by ---------------------------------------------------------------------------


class Clocks:
    def __init__(self, known: float = 0.0, wall: float = 1000 * DAY, patience: float = DAY):
        self.wall, self.ticks = wall, 0.0
        self.clock = SteadyClock(int(known * 1e6), patience, lambda: int(self.wall * 1e6), lambda: self.ticks)

    def passed(self, seconds: float, jump: float = 0.0) -> float:
        self.ticks += seconds
        self.wall += seconds + jump
        return self.clock.now() / 1e6


def test_steady_time_follows_an_even_clock():
    clocks = Clocks()
    assert clocks.passed(5) == 1000 * DAY + 5
    for _ in range(100):
        clocks.passed(600, jump=0.3)  # it is being corrected
    assert abs(clocks.clock.now() / 1e6 - clocks.wall) < 31
    assert clocks.passed(DAY) == pytest.approx(clocks.wall, abs=1e-5)


def test_steady_time_believes_a_jump_after_a_day():
    clocks = Clocks()
    before = clocks.passed(1)
    assert clocks.passed(1, jump=60 * DAY) == before + 1
    assert clocks.passed(DAY / 2) == before + 1 + DAY / 2
    assert clocks.passed(DAY / 2 + 1) == clocks.wall
    assert clocks.passed(1, jump=-60 * DAY) == clocks.wall, "never above the wall clock"


def test_steady_time_begins_with_the_newest_write():
    assert Clocks(known=900 * DAY).passed(1) == 900 * DAY + 1, "closed for 100 days, or a clock that is ahead"
    assert Clocks(known=1060 * DAY).passed(1) == 1000 * DAY + 1, "a clock that was ahead, and is right again"
    assert Clocks(known=900 * DAY, patience=0).passed(1) == 1000 * DAY + 1
