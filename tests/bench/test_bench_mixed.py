"""The mixed benchmark: its open loop, what its rows prove, and a whole run of every engine that is there."""

import datetime
import itertools
import json
import threading
import time
from dataclasses import asdict
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nyala.__main__ import main
from nyala.bench.mixed import measure, section, show
from nyala.bench.mixed.engines import ENGINES
from nyala.bench.mixed.measuring import _QueryRunner
from nyala.bench.mixed.model import ALONE, QUERIES, TOGETHER, Setting
from nyala.bench.mixed.open_loop import OpenLoop
from nyala.bench.mixed.rows import COLUMNS, row_streams
from nyala.errors import DataError, InterfaceError
from nyala.tpch.peers.peer import names_among
from rich.console import Console

ROWS = 3_000
KEY = slice(0, 2)
QUANTITY = COLUMNS.index("l_quantity")
SHORT = Setting(rate=40, seconds=0.5, threads=2, writers=2, buckets=2)


@pytest.fixture(scope="module")
def lineitem(tmp_path_factory):
    """A small lineitem in TPC-H's types; one row in ten is of after Q1's last day."""
    numbers = np.arange(ROWS)
    texts = {
        "l_returnflag": [("A", "N", "R")[n % 3] for n in numbers],
        "l_linestatus": [("F", "O")[n % 2] for n in numbers],
        "l_shipinstruct": ["NONE"] * ROWS,
        "l_shipmode": ["AIR"] * ROWS,
        "l_comment": [f"comment {n}" for n in numbers],
    }
    money = {
        "l_quantity": numbers % 50 + 1,
        "l_extendedprice": numbers + 1000,
        "l_discount": numbers % 11,
        "l_tax": numbers % 9,
    }
    shares = ("l_discount", "l_tax")
    scaled = {
        name: pa.array(
            [Decimal(int(v)).scaleb(-2) if name in shares else Decimal(int(v)) for v in values], pa.decimal128(15, 2)
        )
        for name, values in money.items()
    }
    days = [
        datetime.date(1998, 11, 1) if n % 10 == 0 else datetime.date(1992, 1, 2) + datetime.timedelta(int(n) % 2000)
        for n in numbers
    ]
    table = pa.table(
        {
            "l_orderkey": pa.array(numbers // 4 + 1, pa.int64()),
            "l_partkey": pa.array(numbers, pa.int64()),
            "l_suppkey": pa.array(numbers % 100, pa.int64()),
            "l_linenumber": pa.array(numbers % 4 + 1, pa.int32()),
            **scaled,
            **texts,
            **{name: pa.array(days) for name in ("l_shipdate", "l_commitdate", "l_receiptdate")},
        }
    )
    path = tmp_path_factory.mktemp("lineitem") / "lineitem.parquet"
    pq.write_table(table, path, row_group_size=1000)
    return path


# ---- the rows --------------------------------------------------------------------------------------------------------


def test_every_prefix_of_a_writers_rows_keeps_the_sum(lineitem):
    """The sum of quantities is that of the beginning or 1 more after each upsert, however often rows come again."""
    table = pq.read_table(lineitem).select(list(COLUMNS))
    state = {row[KEY]: row[QUANTITY] for row in zip(*(column.to_pylist() for column in table.columns), strict=True)}
    [stream] = row_streams(lineitem, 1, 0.2, seed=3)
    before, rows = sum(state.values()), len(state)
    for number in range(2 * ROWS):
        row = stream.next_row()
        state[row[KEY]] = row[QUANTITY]
        if number % 50 < 2:
            more = sum(state.values()) - before
            assert more == 0 if number % 2 else 0 <= more <= 1
        stream.acknowledge()
    assert len(state) - rows == stream.begun == stream.done
    assert 0.15 * 2 * ROWS < stream.begun < 0.25 * 2 * ROWS


def test_the_first_of_a_pair_has_the_lower_key(lineitem):
    """So a scan in key order without a snapshot misses firsts of pairs whose seconds it sees."""
    [stream] = row_streams(lineitem, 1, 0.0, seed=3)
    rows = [stream.next_row() for _ in range(200)]
    assert max(row[KEY] for row in rows[::2]) < min(row[KEY] for row in rows[1::2])


def test_no_row_and_no_new_key_belongs_to_two_writers(lineitem):
    streams = row_streams(lineitem, 3, 0.1, seed=3)
    keys = [{stream.next_row()[KEY] for _ in range(ROWS)} for stream in streams]
    assert not any(a & b for a, b in itertools.combinations(keys, 2))


def test_rows_are_among_those_that_q1_asks_for(lineitem):
    [stream] = row_streams(lineitem, 1, 0.1, seed=3)
    shipped = {stream.next_row()[COLUMNS.index("l_shipdate")] for _ in range(ROWS)}
    assert max(shipped) <= datetime.date(1998, 9, 2)


# ---- the open loop ---------------------------------------------------------------------------------------------------


class _Stalling:
    """A writer that takes no time, but for one upsert."""

    def __init__(self, stalled, seconds):
        self.calls = 0
        self._stalled, self._seconds = stalled, seconds
        self._lock = threading.Lock()

    def upsert(self, row):
        with self._lock:
            self.calls += 1
            if self.calls == self._stalled:
                time.sleep(self._seconds)

    def close(self):
        pass


def test_a_stall_delays_all_that_were_due_in_it(lineitem):
    """Coordinated omission: half a second of one second is lost, so half of all upserts are late, not one."""
    setting = Setting(rate=200, seconds=1.0, writers=2)
    writer = _Stalling(20, 0.5)
    loop = OpenLoop(setting, [writer, writer], row_streams(lineitem, 2, 0.0, 1))
    loop.start()
    found = loop.finish()
    assert found.asked == 200
    assert found.latencies.operations == 200
    assert found.latencies.slowest > 450
    assert found.latencies.p95 > 200
    assert found.latencies.mean > 50


def test_what_did_not_begin_counts_with_what_it_waited(lineitem):
    """A writer that holds for the whole time: it ends all the same, with one upsert and the latencies of all."""
    setting = Setting(rate=100, seconds=0.4, writers=1)
    loop = OpenLoop(setting, [_Stalling(1, 0.6)], row_streams(lineitem, 1, 0.0, 1))
    loop.start()
    found = loop.finish()
    assert found.done == 1
    assert found.asked == found.latencies.operations == 40
    assert found.per_second < 2
    assert found.latencies.p50 > 150


def test_a_writers_error_ends_the_loop_and_comes_out(lineitem):
    class Broken(_Stalling):
        def upsert(self, row):
            raise DataError("no such row")

    loop = OpenLoop(Setting(rate=100, seconds=30, writers=1), [Broken(0, 0)], row_streams(lineitem, 1, 0.0, 1))
    loop.start()
    with pytest.raises(DataError, match="no such row"):
        loop.finish()


# ---- answers ---------------------------------------------------------------------------------------------------------


class _Scripted:
    """An engine that answers Q1 with the given sums and counts."""

    def __init__(self, answers):
        self._answers = iter(answers)

    def query(self, text):
        if "l_returnflag" not in text:
            return [(1,)]
        quantity, count = next(self._answers)
        return [("A", "F", Decimal(quantity), 0, 0, 0, 0, 0, 0, count)]

    def version(self):
        return "scripted"


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ((100, 12), 0),
        ((102, 13), 0),
        ((99, 12), 1),
        ((103, 12), 1),
        ((100, 11), 1),
        ((100, 14), 1),
        ((95, 14), 2),
    ],
)
def test_answers_of_no_snapshot_are_found(lineitem, answer, wrong):
    """Two writers; of three new rows, two are acknowledged before the query begins."""
    streams = row_streams(lineitem, 2, 0.0, 1)
    runner = _QueryRunner(_Scripted([(100, 10), answer]), streams)
    runner.warm_up()
    streams[0].begun, streams[0].done, streams[1].begun, streams[1].done = 2, 2, 1, 0
    runner.run_queries(ALONE, lambda: False)
    assert (runner.run.checked, len(runner.run.inconsistent)) == (1, wrong)


# ---- whole runs ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
def test_a_run_of_each_engine(lineitem, tmp_path, name):
    if (missing := ENGINES[name].missing()) is not None:
        pytest.skip(missing)
    found = measure(lineitem, SHORT, [name], tmp_path)
    run = found.runs[name]
    assert run.inconsistent == []
    assert run.checked >= 3
    assert all(run.queries[phase][query] for phase in run.queries for query in QUERIES)
    assert all(upserts.done > 0 and upserts.latencies.operations == 20 for upserts in run.upserts.values())
    assert set(run.upserts) == {ALONE, TOGETHER}
    assert not list(tmp_path.iterdir())

    console = Console(record=True, width=140)
    show(found, console)
    assert f"{name} Q1" in console.export_text()
    made = section(json.loads(json.dumps(asdict(found))))
    assert made.name == "mixed"
    assert [len(grid.rows) for grid in made.grids] == [2, 2]
    assert all(len(row) == len(grid.columns) for grid in made.grids for row in grid.rows)
    assert all(set(chart.series) == {name} for chart in made.charts)
    assert len(made.targets) == (3 if name == "nyala" else 0)


def test_a_missing_engine_is_left_out(lineitem, tmp_path, monkeypatch):
    monkeypatch.setattr(ENGINES["postgres"], "missing", staticmethod(lambda: "there is no server"))
    found = measure(lineitem, SHORT, ["postgres"], tmp_path)
    assert (found.runs, found.left_out) == ({}, {"postgres": "there is no server"})
    assert "postgres is left out: there is no server." in section(asdict(found)).text


def test_unknown_engines_are_refused():
    with pytest.raises(InterfaceError, match="duckbd"):
        names_among("nyala,duckbd", ENGINES, "engine")


def test_the_command_refuses_an_unknown_option(capsys):
    with pytest.raises(SystemExit):
        main(["bench", "mixed", "--rates", "5"])
    assert "--rate" in capsys.readouterr().err
