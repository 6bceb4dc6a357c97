"""Scan tokens: together they are the table, they travel, and they say when they cannot be read any more."""

from __future__ import annotations

import decimal
import json
import socket
import subprocess
import sys
import zlib

import msgspec
import nyala
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.driver.tables.conditions import col
from nyala.driver.tables.key_ranges import key_ranges
from nyala.driver.tables.scan_tokens import MAGIC, ScanToken, TokenColumn
from nyala.errors import HistoryGone, StaleScanToken, TabletGone, UnsupportedFormat
from nyala.model.predicates import AnyOf, InList, IsNull, Range
from nyala.model.store import Replica, ScanSpec

CREATE = """CREATE TABLE t (h STRING, k INT, v DECIMAL(30,2), PRIMARY KEY (h, k))
            PARTITION BY HASH (k) INTO 2 BUCKETS"""


def fill(connection, hosts, rows):
    connection.execute(CREATE)
    names = [hosts[row % len(hosts)] for row in range(rows)]
    amounts = pa.array([decimal.Decimal(row) for row in range(rows)], pa.decimal128(30, 2))
    connection.load("t", pa.table({"h": names, "k": range(rows), "v": amounts}))
    return connection.table("t")


def sent(token):
    found = ScanToken.deserialize(token.serialize())
    assert all(getattr(found, name) == getattr(token, name) for name in ScanToken.__slots__)
    return found


def read(tokens, connection):
    return [row for token in tokens for row in sent(token).open(connection).to_arrow().to_pylist()]


def keys(rows):
    return sorted((row["h"], row["k"]) for row in rows)


@pytest.mark.parametrize("hosts", [["a"], ["a", "b", "b", "b", "c"], [f"h{n}" for n in range(5000)]])
def test_all_tokens_together_are_the_table(connection, hosts):
    table = fill(connection, hosts, 40_000)
    table.upsert([("b", -1, None), ("", 7, None), ("zz", 99_999, None)])
    expected = table.scan(ordered=True).to_arrow()
    size = sum(tablet.bytes for tablet in table.tablets)
    tokens = table.scan_tokens(ordered=True, split_size_bytes=size // 7)
    assert 5 <= len(tokens) <= 20
    assert sum(token.estimated_bytes for token in tokens) <= size + len(tokens)
    table.delete(expected.slice(0, 39_000).select(["h", "k"]))
    table.upsert([("c", k, decimal.Decimal(1)) for k in range(500)])
    connection.store.flush()
    parts = [sent(token).open(connection).to_arrow() for token in tokens]
    for tablet in table.tablets:  # the parts of a tablet ascend
        mine = pa.concat_tables([part for part, token in zip(parts, tokens) if token.tablet == tablet.id])
        assert mine.equals(mine.sort_by([("h", "ascending"), ("k", "ascending")]))
    together = pa.concat_tables(parts).sort_by([("h", "ascending"), ("k", "ascending")])
    assert together.equals(expected)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 9)), unique=True, max_size=60),
    st.integers(1, 20),
    st.lists(st.tuples(st.integers(-1, 4), st.integers(-1, 4), st.integers(-1, 10)), max_size=30),
)
def test_key_ranges_tile_all_keys(samples, parts, others):
    found = key_ranges(["a", "b", "c"], sorted(samples), parts)
    assert sum(share for _, share in found) == pytest.approx(1)

    def holds(part, key):
        value = key["abc".index(part.column)]
        above = part.lower is None or value > part.lower or (value == part.lower and part.lower_inclusive)
        return above and (part.upper is None or value < part.upper or (value == part.upper and part.upper_inclusive))

    places = []
    for key in sorted([*samples, *others]):
        (place,) = [n for n, (range_, _) in enumerate(found) if all(holds(part, key) for part in range_)]
        places.append(place)
    assert places == sorted(places)


def test_tokens_carry_projection_conditions_and_limit(connection):
    table = fill(connection, ["a", "b"], 300)
    conditions = [
        (col("k") < 9) | col("k").between(100, 104) | (col("k") == 7),
        col("v") >= decimal.Decimal("3"),
        col("v") < decimal.Decimal(10) ** 25,
        col("h").is_in(["a", "c"]),
        col("h").is_not_null(),
    ]
    tokens = table.scan_tokens(["k"], conditions)
    assert sorted(row["k"] for row in read(tokens, connection)) == [4, 6, 8, 100, 102, 104]
    assert sum(token.estimated_rows for token in tokens) == 300
    limited = [sent(token).open(connection).to_arrow().num_rows for token in table.scan_tokens(limit=2)]
    assert limited == [2, 2]
    assert table.scan_tokens(predicates=col("k") == 5)[0].partition in table.partitions
    assert len(table.scan_tokens(predicates=col("k") == 5)) == 1


@pytest.mark.slow
def test_another_process_reads_a_token(tmp_path):
    with nyala.connect(tmp_path) as connection:
        table = fill(connection, ["a", "b"], 100)
        tokens = table.scan_tokens(["k"], col("h") == "b")
        connection.execute("DELETE FROM t WHERE k < 50")
    for replica in {replica for token in tokens for replica in token.locations}:
        assert (replica.host, replica.directory, replica.role) == (socket.gethostname(), str(tmp_path), "LEADER")
    program = """
import json, sys, nyala
from nyala.driver.tables.scan_tokens import ScanToken
tokens = [ScanToken.deserialize(bytes.fromhex(text)) for text in sys.argv[1:]]
with nyala.connect(tokens[0].locations[0].directory) as connection:
    print(json.dumps([k for token in tokens for k in token.open(connection).to_arrow()["k"].to_pylist()]))
"""
    given_tokens = [token.serialize().hex() for token in tokens]
    done = subprocess.run([sys.executable, "-c", program, *given_tokens], capture_output=True, text=True, check=True)
    assert sorted(json.loads(done.stdout)) == list(range(1, 100, 2))


def test_an_altered_table_is_read_by_ids(connection):
    table = fill(connection, ["a"], 10)
    (token, *_) = tokens = table.scan_tokens(["k", "v"], col("h") == "a")
    connection.execute("ALTER TABLE t RENAME TO u")
    connection.execute("ALTER TABLE u RENAME COLUMN h TO host")
    connection.execute("ALTER TABLE u RENAME COLUMN k TO number")
    connection.execute("ALTER TABLE u ADD COLUMN k INT")
    assert sorted(row["k"] for row in read(tokens, connection)) == list(range(10))
    connection.execute("ALTER TABLE u DROP COLUMN v")
    with pytest.raises(StaleScanToken, match="column v of the scan token has been dropped"):
        token.open(connection)
    connection.execute("DROP TABLE u")
    connection.execute(CREATE)
    with pytest.raises(StaleScanToken, match=r"table t .* has been dropped"):
        token.open(connection)


def test_a_dropped_range_is_gone(connection):
    connection.execute("CREATE TABLE r (k INT PRIMARY KEY) PARTITION BY RANGE (k) (PARTITION VALUES < 9)")
    table = connection.table("r")
    table.insert((1,))
    (token,) = table.scan_tokens()
    connection.execute("ALTER TABLE r DROP RANGE PARTITION VALUES < 9")
    with pytest.raises(StaleScanToken, match="range partition"):
        token.open(connection)
    store = connection.store
    with pytest.raises(TabletGone):
        store.key_samples(store.table("r"), token.tablet)
    with pytest.raises(TabletGone):
        store.scan_tokens(store.table("r"), ScanSpec(("k",), tablet=token.tablet))


def test_the_past_of_a_token_may_be_given_up():
    with nyala.connect(":memory:", history_seconds=0) as connection:
        table = fill(connection, ["a"], 10)
        (token, *_) = table.scan_tokens()
        table.delete([("a", k) for k in range(10)])
        connection.execute("COMPACT TABLE t")
        with pytest.raises(HistoryGone):
            token.open(connection)


def test_bytes_that_are_no_token(connection):
    data = fill(connection, ["a"], 2).scan_tokens()[0].serialize()
    place = len(MAGIC)
    with pytest.raises(UnsupportedFormat, match="version 9; this nyala reads up to 2"):
        ScanToken.deserialize(data[:place] + b"\x09" + data[place + 1 :])
    for wrong in (b"", b"nonsense" * 9, data[:-1], data[:-3] + b"\0" + data[-2:], data[: place + 2]):
        with pytest.raises(nyala.DataError, match="scan token"):
            ScanToken.deserialize(wrong)
    body = msgspec.msgpack.encode({"table_id": "t"})
    with pytest.raises(nyala.DataError, match="scan token lacks"):
        ScanToken.deserialize(data[: place + 1] + zlib.crc32(body).to_bytes(4, "little") + body)


WIDE = 10**37 + 1
K, W = TokenColumn(0, "k", "BIGINT"), TokenColumn(1, "w", "DECIMAL(38, 0)")
OF_VERSION_1 = """
6e79616c61207363616e20746f6b656e01820be0328fa87461626c655f6964a774303030303031a57461626c65a174ae
736368656d615f76657273696f6e03a67461626c6574ad743030303030312d7030303030a9706172746974696f6ea361
6c6ca8736e617073686f74cf4000000000000000a76f726465726564c3a56c696d697409ae657374696d617465645f72
6f777364af657374696d617465645f6279746573cf0000010000000000a96c6f636174696f6e739183a4686f7374a168
a96469726563746f7279a22f64a4726f6c65a64c4541444552a7636f6c756d6e73919301a177ae444543494d414c2833
382c203029b1636f6e646974696f6e5f636f6c756d6e73929300a16ba6424947494e549301a177ae444543494d414c28
33382c203029a96b65795f72616e67659196a572616e67650005c0c2c3aa707265646963617465739496a572616e6765
01c71101ffffffff5fc90bff26b9252aef117af8ffc7110101000000a036f400d946dad510ee850700c3c394a2696e01
01c71101000000000000000001000000000000000093a46e756c6c01c395a3616e790196a572616e676501c000c3c393
a2696e01c7110101000000a036f400d946dad510ee85070093a46e756c6c01c2
"""


def test_a_token_of_an_earlier_version_is_read():
    token = ScanToken.deserialize(bytes.fromhex(OF_VERSION_1))
    expected = {
        "table_id": "t000001",
        "table": "t",
        "schema_version": 3,
        "tablet": "t000001-p0000",
        "partition": "all",
        "locations": (Replica("h", "/d"),),
        "columns": (W,),
        "condition_columns": (K, W),
        "key_range": (Range("k", 5, lower_inclusive=False),),
        "predicates": (
            Range("w", -WIDE, WIDE),
            InList("w", (1, 2**64)),
            IsNull("w", negated=True),
            AnyOf("w", (Range("w", None, 0), InList("w", (WIDE,)), IsNull("w"))),
        ),
        "snapshot": 2**62,
        "ordered": True,
        "limit": 9,
        "estimated_rows": 100,
        "estimated_bytes": 2**40,
    }
    assert {name: getattr(token, name) for name in ScanToken.__slots__} == expected
    sent(token)


def test_key_samples_are_keys_of_the_tablet(connection):
    table = fill(connection, ["a", "b"], 20_000)
    store = connection.store
    for tablet in store.describe_tablets(store.table("t")):
        samples = store.key_samples(store.table("t"), tablet.id)
        assert list(samples) == sorted(samples) and len(samples) >= 2
        (token,) = store.scan_tokens(store.table("t"), ScanSpec(("h", "k"), tablet=tablet.id))
        rows = {row for b in store.scan(token) for row in zip(*(c.to_arrow().to_pylist() for c in b.columns()))}
        assert set(samples) <= rows and len(rows) == tablet.rows and tablet.bytes > 0
    assert table.num_rows == 20_000
