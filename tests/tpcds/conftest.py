"""TPC-DS, generated and loaded once per session into both engines."""

import duckdb
import nyala
import pytest
from nyala.bench.suites.queries.tpcds_schema import TABLES, generate, load


@pytest.fixture(scope="session")
def parquet_directory(tmp_path_factory):
    return generate(tmp_path_factory.mktemp("tpcds"))


@pytest.fixture(scope="session")
def connection(tmp_path_factory, parquet_directory):
    with nyala.connect(tmp_path_factory.mktemp("tpcds_database"), threads=2) as connection:
        load(connection, parquet_directory)
        yield connection


@pytest.fixture(scope="session")
def peer(parquet_directory):
    """DuckDB over the same files, with PostgreSQL's place of NULLs."""
    with duckdb.connect(config={"threads": 2}) as peer:
        peer.execute("SET default_null_order = 'postgres'")
        for spec in TABLES:
            path = parquet_directory / f"{spec.name}.parquet"
            peer.execute(f"CREATE TABLE {spec.name} AS SELECT * FROM read_parquet('{path}')")
        yield peer
