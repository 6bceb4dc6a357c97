"""The suite `tpcds` of `nyala bench suites`: its tables, its statements, and one of them on both engines."""

from dataclasses import replace

import pyarrow.parquet as pq
from nyala.bench.suites.model import Size
from nyala.bench.suites.queries import tpcds, tpcds_schema
from nyala.bench.suites.runner import Setting, run_suite


def test_keys_come_first_and_are_not_null(parquet_directory, monkeypatch):
    monkeypatch.setattr(tpcds_schema, "generate", lambda directory, scale: directory)
    made = tpcds.tables(Size(0, 0.01), parquet_directory)
    assert len(made) == 24
    for table in made:
        spec, columns = table.spec, pq.read_schema(table.path)
        assert spec.schema.names[: len(spec.key)] == list(spec.key) and set(spec.schema.names) == set(columns.names)
        assert not any(spec.schema.field(name).nullable for name in spec.key)


def test_the_suite_runs_a_statement(parquet_directory, monkeypatch, tmp_path):
    monkeypatch.setattr(tpcds_schema, "generate", lambda directory, scale: directory)
    named = {table.spec.name: table for table in tpcds.tables(Size(0, 0.01), parquet_directory)}
    suite = replace(tpcds.SUITE, tables=lambda size, place: [named["item"]])
    found = run_suite(suite, Setting(["nyala", "duckdb"], runs=0, queries=["41"], work=tmp_path))
    assert found.queries["41"]["nyala"].rows and not found.queries["41"]["nyala"].trouble
    assert len(tpcds.queries(Size(0, 1.0))) == 103 and tpcds.SUITE.missing() is None
