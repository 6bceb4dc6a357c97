"""All 99 queries of TPC-DS, 103 statements, on a small data set: nyala's answers are DuckDB's."""

import pytest
from nyala.bench.suites.answers import difference, take_apart
from nyala.bench.suites.queries.tpcds_queries import NAMES, text

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", NAMES)
def test_query(connection, peer, name):
    statement = take_apart(text(name))
    theirs = peer.execute(statement.unlimited).fetchall()
    assert theirs, "a query that finds nothing tests nothing"
    ours = connection.execute(text(name)).fetchall()
    assert difference(statement, ours, theirs) is None
