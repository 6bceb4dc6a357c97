"""TPC-H at scale factor 0.01, generated and loaded once per session."""

import pytest
from nyala.tpch.generate import generate

SCALE_FACTOR = 0.01


@pytest.fixture(scope="session")
def parquet_directory(tmp_path_factory):
    return generate(SCALE_FACTOR, tmp_path_factory.mktemp("tpch") / "parquet")


@pytest.fixture(scope="session")
def database(tmp_path_factory, parquet_directory):
    from nyala.tpch.load import load

    directory = tmp_path_factory.mktemp("tpch") / "database"
    load(directory, SCALE_FACTOR, buckets=3, data=parquet_directory)
    return directory
