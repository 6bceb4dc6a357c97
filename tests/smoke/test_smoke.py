"""A walk through every door with the oldest dependencies that are allowed: `make floors` runs this alone.

What it uses must be installed there: nyala, its extras `floors`, pytest; no hypothesis, no second engine.
"""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import nyala
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nyala import col

D = decimal.Decimal
TYPES: dict[str, Any] = {  # a value of each type
    "BOOLEAN": True,
    "TINYINT": -128,
    "SMALLINT": 32767,
    "INT": -(2**31),
    "BIGINT": 2**63 - 1,
    "FLOAT": 1.5,
    "DOUBLE": -0.1,
    "DECIMAL(5, 2)": D("123.45"),
    "DECIMAL(10, 2)": D("-12345678.90"),
    "DECIMAL(38, 10)": D("1234567890123456789012345678.0123456789"),
    "DATE": datetime.date(2026, 2, 28),
    "TIMESTAMP": datetime.datetime(2026, 2, 28, 23, 59, 59, 999999),
    "STRING": "grüß 'dich', \"Welt\"\n",
    "BINARY": b"\x00\xff",
}


@pytest.fixture
def connection(tmp_path: Path) -> Any:
    with nyala.connect(tmp_path / "store", durability="os") as connection:
        yield connection


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_values_of_all_types_go_out_and_in(connection: Any, tmp_path: Path, suffix: str) -> None:
    values = {type_: value for type_, value in TYPES.items() if suffix == "parquet" or type_ != "BINARY"}
    rows = [(0, *values.values()), (1, *[None] * len(values))]
    columns = ", ".join(f"c{place} {type_}" for place, type_ in enumerate(values))
    for table in ("a", "b"):
        connection.execute(f"CREATE TABLE {table} (k INT PRIMARY KEY, {columns}) DISTRIBUTE BY HASH (k) INTO 2 BUCKETS")
    connection.executemany(f"INSERT INTO a VALUES ({', '.join('?' * len(rows[0]))})", rows)
    connection.execute("COMPACT TABLE a")
    path = tmp_path / f"a.{suffix}"
    connection.execute(f"COPY a TO '{path}'")
    connection.execute(f"COPY b FROM '{path}'")
    assert connection.execute("SELECT * FROM b ORDER BY k").fetchall() == rows
    if suffix == "parquet":
        assert connection.execute(f"SELECT * FROM '{path}' ORDER BY k").fetchall() == rows
    assert connection.execute("SELECT count(*) FROM a JOIN b USING (k, c3, c8, c10, c12)").fetchone() == (1,)


def test_a_query_with_a_little_of_everything(connection: Any) -> None:
    connection.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, g STRING, v DECIMAL(12, 2), d DATE)")
    numbers = np.arange(50_000)
    data = pa.table(
        {
            "k": numbers,
            "g": pa.array([f"g{n % 7}" for n in numbers]),
            "v": pa.array([D(int(n)) / 4 for n in numbers], pa.decimal128(12, 2)),
            "d": pa.array(numbers % 365, pa.int32()).cast(pa.date32()),
        }
    )
    assert connection.load("t", data) == 50_000
    query = """
        WITH ranked AS (
            SELECT *, row_number() OVER (PARTITION BY g ORDER BY v DESC) AS place FROM t WHERE d < '1970-06-01')
        SELECT g, count(*), sum(v), max(CASE WHEN place = 1 THEN k END) FROM ranked
        WHERE EXISTS (SELECT 1 FROM t AS o WHERE o.k = ranked.k + 1)
        GROUP BY g HAVING count(*) > 1 ORDER BY g LIMIT 3"""
    kept = [n for n in range(49_999) if n % 365 < 151]
    expected = []
    for group in range(3):
        mine = [n for n in kept if n % 7 == group]
        expected.append((f"g{group}", len(mine), sum((D(n) / 4 for n in mine), D(0)), max(mine)))
    assert connection.execute(query).fetchall() == expected
    before = connection.last_timestamp
    assert connection.execute("UPDATE t SET v = 0 WHERE k % 2 = 0").rowcount == 25_000
    assert connection.execute("DELETE FROM t WHERE g = 'g6'").rowcount == 7_142
    past = connection.execute("SELECT count(*), min(v) FROM t FOR SYSTEM_TIME AS OF ? WHERE k > 0", [before]).fetchone()
    assert past == (49_999, D("0.25"))
    table = connection.table("t")
    assert table.get(3)["v"] == D("0.75")
    assert len(table.scan(predicates=[col("k") < 14]).to_arrow()) == 12
    spilled = connection.execute("SET memory_limit = '32MB'")
    spilled = connection.execute("SELECT a.k FROM t AS a JOIN t AS b ON a.k = b.k ORDER BY a.v, a.k DESC")
    assert len(spilled.fetchall()) == 42_858


def test_a_served_directory_and_the_shell(connection: Any, tmp_path: Path) -> None:
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
    url = connection.serve()
    with nyala.connect(url) as client:
        client.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(1000)])
        assert client.execute("SELECT sum(k) FROM t").fetchone() == (499_500,)
    command = [sys.executable, "-m", "nyala", "shell", url, "-c", "SELECT max(k) AS most FROM t"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert shown.split() == ["most", "----", "999", "(1", "row)"]


def test_numpy_and_pandas(connection: Any) -> None:
    pd = pytest.importorskip("pandas")
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, at TIMESTAMP, s STRING)")
    frame = pd.DataFrame({"k": [1, 2], "at": pd.to_datetime(["2026-01-01", "2026-01-02"]), "s": ["a", None]})
    connection.load("t", frame)
    found = connection.execute("SELECT * FROM t ORDER BY k").df()
    assert found["k"].tolist() == [1, 2]
    assert found["at"].tolist() == frame["at"].tolist()


def test_sqlalchemy_and_alembic(tmp_path: Path) -> None:
    sa = pytest.importorskip("sqlalchemy")
    pytest.importorskip("alembic")
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    engine = sa.create_engine(f"nyala:///{tmp_path}/orm", isolation_level="AUTOCOMMIT")
    metadata = sa.MetaData()
    users = sa.Table("users", metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.String(9)))
    metadata.create_all(engine)
    with engine.connect() as connection:
        connection.execute(users.insert(), [{"name": "ann"}, {"name": "bob"}])
        made = connection.execute(users.insert().returning(users.c.id), {"name": "cy"}).scalar_one()
        assert connection.execute(sa.select(users).where(users.c.id.in_([made]))).all() == [(3, "cy")]
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()


def test_parquet_statistics_of_decimals(connection: Any, tmp_path: Path) -> None:
    types = [pa.decimal128(digits, 2) for digits in (5, 10, 18, 38)]
    data = pa.table({f"c{n}": pa.array([D("1.25"), None, D("-2.5")], type_) for n, type_ in enumerate(types)})
    pq.write_table(data, tmp_path / "d.parquet")
    found = connection.execute(f"SELECT min(c0), max(c1), sum(c2), count(c3) FROM '{tmp_path}/d.parquet' WHERE c1 > 0")
    assert found.fetchone() == (D("1.25"), D("1.25"), D("1.25"), 1)
