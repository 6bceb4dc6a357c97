"""SQL statements over a transaction give what they give over a store that has the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from nyala.cluster.client.client import Client
from nyala.cluster.client.options import ClientOptions
from nyala.driver.session.session import Session
from nyala.driver.stores.cluster_url import servers
from nyala.errors import IntegrityError
from nyala.model.store import Store
from nyala.storage.database import Database
from nyala.testing import MiniCluster

TABLES = [
    """CREATE TABLE orders (o INT NOT NULL, customer INT, day DATE, PRIMARY KEY (o))
    DISTRIBUTE BY HASH (o) INTO 3 BUCKETS REPLICAS 1""",
    """CREATE TABLE lines (o INT NOT NULL, line INT NOT NULL, price DECIMAL(10, 2), part STRING, PRIMARY KEY (o, line))
    DISTRIBUTE BY HASH (o) INTO 3 BUCKETS REPLICAS 1""",
]
BASE = [
    "INSERT INTO orders SELECT i, i % 7, DATE '2026-01-01' + CAST(i % 90 AS INT) FROM generate_series(1, 3000) AS s(i)",
    """INSERT INTO lines SELECT i / 4, i % 4, CAST(i % 100 AS DECIMAL(10, 2)), 'part ' || CAST(i % 13 AS STRING)
    FROM generate_series(4, 12000) AS s(i)""",
]
WRITES = [
    "UPDATE orders SET customer = 100 WHERE o BETWEEN 40 AND 60",
    "DELETE FROM orders WHERE o % 50 = 3",
    "INSERT INTO orders VALUES (5000, 1, '2026-02-03'), (5001, NULL, NULL)",
    "UPDATE lines SET price = price + 1 WHERE part = 'part 3'",
    "UPDATE orders SET day = '2026-05-05' WHERE o = 7",
    "DELETE FROM lines WHERE o = 8 AND line = 1",
    "INSERT INTO lines SELECT o + 5000, line, price, part FROM lines WHERE o BETWEEN 1 AND 300",
    "INSERT INTO orders VALUES (40, 1, NULL), (6000, 2, NULL) ON CONFLICT (o) DO UPDATE SET customer = 7",
    "UPSERT INTO orders VALUES (7, 3, '2026-01-01')",
    "UPDATE orders SET customer = 8 FROM lines WHERE lines.o = orders.o AND lines.price > 99",
    "DELETE FROM orders WHERE o = 60",
    "INSERT INTO orders VALUES (60, 60, NULL)",
]
QUERIES = [
    "SELECT COUNT(*), SUM(customer), MIN(day), MAX(o) FROM orders",
    "SELECT * FROM orders WHERE o = 40",
    "SELECT * FROM orders ORDER BY o LIMIT 12",
    "SELECT * FROM orders ORDER BY o DESC LIMIT 12",
    "SELECT * FROM orders WHERE customer = 100 ORDER BY o",
    "SELECT o, SUM(price), COUNT(*) FROM lines GROUP BY o ORDER BY o",
    "SELECT orders.o, line, customer, price FROM orders JOIN lines ON orders.o = lines.o ORDER BY orders.o, line",
    """SELECT orders.o, COUNT(line) FROM orders LEFT JOIN lines ON orders.o = lines.o GROUP BY orders.o
    ORDER BY 2 DESC, 1""",
    "SELECT COUNT(*) FROM orders WHERE NOT EXISTS (SELECT 1 FROM lines WHERE lines.o = orders.o AND price > 50)",
    "SELECT part, COUNT(DISTINCT o) FROM lines GROUP BY part ORDER BY part",
    """SELECT customer, SUM(price) FROM orders, lines WHERE orders.o = lines.o AND day > '2026-02-01'
    GROUP BY customer ORDER BY customer""",
    "SELECT o, line, SUM(price) OVER (PARTITION BY o ORDER BY line) FROM lines WHERE o < 100 ORDER BY o, line",
    "SELECT o FROM orders WHERE o IN (SELECT o FROM lines WHERE part = 'part 3' AND price > 90) ORDER BY o",
    "SELECT DISTINCT customer FROM orders ORDER BY customer NULLS FIRST",
    "SELECT * FROM lines WHERE o = 8 ORDER BY line",
    "SELECT o, price FROM lines ORDER BY price DESC, o LIMIT 5",
]


def rows(session: Session, text: str) -> list[tuple]:
    execution = session.run(text)
    found: list[tuple] = []
    while execution.columns is not None and (batch := execution.next_batch()) is not None:
        found += zip(*(column.to_pylist() for column in batch.columns))
    execution.close()
    return found


def filled(store: Store) -> Session:
    session = Session(store, threads=2)
    for text in [*TABLES, *BASE]:
        rows(session, text)
    return session


@pytest.fixture(scope="module")
def cluster() -> Iterator[MiniCluster]:
    with MiniCluster(tservers=1) as found:
        yield found


@contextmanager
def opened(place: str, request: pytest.FixtureRequest) -> Iterator[Store]:
    if place == "cluster":
        with Client(servers(request.getfixturevalue("cluster").url), ClientOptions(deadline=60.0)) as client:
            yield client
    else:
        with Database(":memory:", background=False) as database:
            yield database


PLACES = ["rowsets", "memory", pytest.param("cluster", marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=PLACES)
def sessions(request: pytest.FixtureRequest) -> Iterator[tuple[Session, Session]]:
    """A session in a transaction, and one over a store of its own that has the same rows."""
    with Database(":memory:") as mirror, opened(request.param, request) as store:
        mirrored, outside = filled(mirror), filled(store)
        if request.param == "rowsets":
            store.flush()
        transaction = store.begin()
        rows(outside, "UPDATE orders SET customer = 1000 WHERE o < 100")
        rows(outside, "DELETE FROM lines WHERE o > 2000")
        yield Session(transaction, threads=2), mirrored
        transaction.rollback()


def test_statements_see_the_transaction(sessions) -> None:
    inside, mirrored = sessions
    for text in ["", *WRITES]:
        if text:
            rows(inside, text)
            rows(mirrored, text)
        for query in QUERIES:
            assert rows(inside, query) == rows(mirrored, query), f"after {text}: {query}"


def test_returning_and_errors_are_the_same(sessions) -> None:
    inside, mirrored = sessions
    for text in [
        "UPDATE orders SET customer = customer + 1 WHERE o BETWEEN 41 AND 44 RETURNING o, customer",
        "DELETE FROM orders WHERE o = 42 RETURNING *",
        "INSERT INTO orders VALUES (42, 9, NULL) RETURNING o",
    ]:
        assert sorted(rows(inside, text)) == sorted(rows(mirrored, text))
    for text in ["INSERT INTO orders VALUES (41, 1, NULL), (7000, 1, NULL)", "INSERT INTO orders VALUES (42, 1, NULL)"]:
        messages = []
        for session in (inside, mirrored):
            with pytest.raises(IntegrityError) as error:
                rows(session, text)
            messages.append(str(error.value))
        assert messages[0] == messages[1]
    assert rows(inside, QUERIES[0]) == rows(mirrored, QUERIES[0])
