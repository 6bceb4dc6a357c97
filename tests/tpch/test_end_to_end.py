"""Load, run, check: all 22 queries against DuckDB on the same files, also after the loading process was killed."""

import json
import os
import signal
import subprocess
import sys
from contextlib import nullcontext

import duckdb
import nyala
import pytest
from nyala.tpch import check, manifest
from nyala.tpch.peers import DuckDB, opened
from nyala.tpch.queries import QUERIES
from nyala.tpch.schema import TABLES


@pytest.fixture(scope="module")
def connection(database):
    with nyala.connect(database, threads=2) as connection:
        yield connection


@pytest.fixture(scope="module")
def peer(parquet_directory):
    with opened(DuckDB(), parquet_directory, 2) as peer:
        yield peer


@pytest.mark.parametrize("query", QUERIES, ids=[f"q{query.number}" for query in QUERIES])
def test_query(connection, peer, query):
    difference = check.compare(query, connection.execute(query.text).arrow(), peer.run(query.text))
    assert difference is None, str(difference)


@pytest.mark.parametrize("spec", TABLES, ids=[spec.name for spec in TABLES])
def test_every_row_is_there(connection, peer, spec):
    """Each table, whole, equals its Parquet file."""
    names = ", ".join(name for name, _ in spec.columns)
    text = f"SELECT {names} FROM {spec.name} ORDER BY {', '.join(spec.key)}"
    ours, theirs = connection.execute(text).arrow(), peer.run(text)
    assert ours.num_rows == theirs.num_rows
    for name in ours.column_names:
        assert ours[name].combine_chunks().equals(theirs[name].cast(ours[name].type).combine_chunks()), name


def test_queries_over_empty_tables():
    """No rows and no statistics: every query still plans and runs."""
    with nyala.connect(":memory:") as connection:
        for spec in TABLES:
            connection.execute(spec.create_table(2))
        counts = {query.number: len(connection.execute(query.text).fetchall()) for query in QUERIES}
    # Without groups an aggregate gives one row, over nothing.
    assert {number for number, count in counts.items() if count} == {6, 14, 17, 19}


def test_rows_that_were_inserted_one_way_or_the_other_are_the_same(peer, parquet_directory):
    """INSERT keeps rows in the MemRowSet, the bulk loader writes DiskRowSets: queries must not see a difference."""
    with nyala.connect(":memory:") as connection:
        for spec in TABLES:
            connection.execute(spec.create_table(2))
            names = [name for name, _ in spec.columns]
            rows = peer.run(f"SELECT {', '.join(names)} FROM {spec.name} ORDER BY {', '.join(spec.key)} LIMIT 3000")
            values = ", ".join("?" * len(names))
            half = rows.num_rows // 2
            cells = list(zip(*(column.to_pylist() for column in rows.slice(0, half).columns)))
            connection.executemany(f"INSERT INTO {spec.name} VALUES ({values})", cells or [])
            connection.load(spec.name, rows.slice(half))
        with duckdb.connect() as small:
            for spec in TABLES:
                path = parquet_directory / f"{spec.name}.parquet"
                order = f"ORDER BY {', '.join(spec.key)} LIMIT 3000"
                small.execute(f"CREATE TABLE {spec.name} AS SELECT * FROM read_parquet('{path}') {order}")
            for query in QUERIES:
                theirs = small.sql(query.text).to_arrow_table()
                difference = check.compare(query, connection.execute(query.text).arrow(), theirs)
                assert difference is None, str(difference)


def test_orders_and_lineitem_are_co_partitioned(connection):
    orders, lineitem = (connection.store.table(name).partitions.hash_rules for name in ("orders", "lineitem"))
    assert (
        [(rule.buckets, rule.seed) for rule in orders] == [(rule.buckets, rule.seed) for rule in lineitem] == [(3, 0)]
    )
    assert (orders[0].columns, lineitem[0].columns) == (("o_orderkey",), ("l_orderkey",))
    tablets = {spec.name: connection.store.tablet_count(connection.store.table(spec.name)) for spec in TABLES}
    assert tablets == {
        "region": 1,
        "nation": 1,
        "supplier": 2,
        "customer": 3,
        "part": 3,
        "partsupp": 3,
        "orders": 3,
        "lineitem": 3,
    }


def test_the_manifest_says_what_was_loaded(database, parquet_directory):
    loaded = manifest.read(database)
    assert (loaded.scale_factor, loaded.buckets, loaded.data) == (0.01, 3, str(parquet_directory))
    assert loaded.rows["orders"] == 15_000


def command(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "nyala", "tpch", *map(str, arguments)], capture_output=True, text=True, timeout=120
    )
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.slow
def test_the_commands(tmp_path, parquet_directory):
    directory = tmp_path / "db"
    load = ("load", "--sf", "0.01", directory, "--data-dir", parquet_directory, "--buckets", "2")
    done = command(*load)
    assert done.returncode == 0, done.stderr
    assert "loaded 86," in done.stdout
    assert "peak memory" in done.stdout
    again = command(*load)
    assert again.returncode == 1
    assert "has the TPC-H tables region, nation" in again.stderr
    assert command(*load, "--replace").returncode == 0
    report = tmp_path / "report.json"
    run = command("run", directory, "--queries", "1,6", "--runs", "2", "--check", "--json", report, "--threads", "2")
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("right") == 2
    assert "geometric mean" in run.stdout
    data = json.loads(report.read_text())
    assert list(data["queries"]) == ["1", "6"]
    assert data["queries"]["6"]["check"] == "ok"
    assert len(data["queries"]["6"]["warm"]) == 2
    compared = command("compare", directory, "--queries", "6", "--runs", "1", "--peers", "duckdb-parquet")
    assert "geometric mean of nyala / duckdb-parquet" in compared.stdout


def test_a_wrong_answer_is_told(database, monkeypatch, capsys):
    from nyala.__main__ import main
    from nyala.tpch import run

    wrong = check.Difference(6, "row 1, column 1: 1 instead of 2")
    monkeypatch.setattr(run, "checker_for", lambda *_: nullcontext(lambda *_: wrong))
    assert main(["tpch", "run", str(database), "--queries", "6", "--runs", "1", "--check"]) == 1
    assert "WRONG" in capsys.readouterr().out


LOAD_AND_WAIT = """
import sys, time
from pathlib import Path
from nyala.tpch.load import load
load(Path(sys.argv[1]), 0.01, data=Path(sys.argv[2]))
print("loaded", flush=True)
time.sleep(600)
"""


def test_a_load_survives_sigkill(tmp_path, parquet_directory, peer):
    arguments = [sys.executable, "-c", LOAD_AND_WAIT, str(tmp_path / "db"), str(parquet_directory)]
    child = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "loaded\n"
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
    with nyala.connect(tmp_path / "db") as connection:
        for query in QUERIES[:6]:
            assert check.compare(query, connection.execute(query.text).arrow(), peer.run(query.text)) is None
