"""dbgen's raw files become the tables that `nyala tpch load` makes."""

import nyala
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from nyala.errors import DataError, OperationalError, ProgrammingError
from nyala.tpch import manifest
from nyala.tpch.etl import check_counts, etl, raw_columns
from nyala.tpch.generate import generate, parquet_file, row_counts
from nyala.tpch.load import load
from nyala.tpch.queries import QUERIES
from nyala.tpch.schema import TABLES

SCALE = 0.01


def write_raw(data, raw):
    """Parquet as dbgen's text: a separator behind every field; orders split."""
    raw.mkdir()
    for spec in TABLES:
        table = pq.read_table(parquet_file(data, spec.name)).select(raw_columns(spec))
        columns = [column.cast(pa.string()).combine_chunks() for column in table.columns]
        lines = pc.binary_join_element_wise(*columns, "", "|").to_pylist()
        if spec.name == "orders":
            (raw / "orders.tbl.1").write_text("".join(f"{line}\n" for line in lines[:7000]))
            lines, name = lines[7000:], "orders.tbl.2"
        else:
            name = f"{spec.name}.tbl"
        (raw / name).write_text("".join(f"{line}\n" for line in lines))


def test_raw_files_answer_queries_as_loaded_ones(spark, tmp_path):
    data = generate(SCALE, tmp_path / "data")
    write_raw(data, tmp_path / "raw")
    with (tmp_path / "raw" / "nation.tbl").open("a") as file:
        file.write("25|ATLANTIS|many|under the sea|\n")
    load(tmp_path / "loaded", SCALE, data=data, buckets=2)
    with pytest.raises(DataError, match="nation"):
        etl(spark, tmp_path / "raw", tmp_path / "etl", buckets=2, rejects=tmp_path / "bad.jsonl")
    assert "ATLANTIS" in (tmp_path / "bad.nation.jsonl").read_text()
    with pytest.raises(ProgrammingError, match="--replace"):
        etl(spark, tmp_path / "raw", tmp_path / "etl")
    text = (tmp_path / "raw" / "nation.tbl").read_text().splitlines(keepends=True)
    (tmp_path / "raw" / "nation.tbl").write_text("".join(text[:-1]))
    result = etl(spark, tmp_path / "raw", tmp_path / "etl", buckets=2, replace=True)
    assert result.scale_factor == SCALE and {n: t.rows for n, t in result.tables.items()} == row_counts(data)
    assert manifest.read(tmp_path / "etl").rows == row_counts(data)
    with nyala.connect(tmp_path / "loaded") as loaded, nyala.connect(tmp_path / "etl") as made:
        for query in QUERIES:
            assert made.execute(query.text).fetchall() == loaded.execute(query.text).fetchall(), query.number
    with pytest.raises(OperationalError, match=r"no region\.tbl"):
        etl(spark, data, tmp_path / "other")


def test_counts_are_held_against_the_scale_factor():
    right = {"region": 5, "nation": 25, "supplier": 100, "customer": 1500, "part": 2000, "partsupp": 8000}
    right |= {"orders": 15000, "lineitem": 60175}
    check_counts(right, 0.01)
    for wrong in ({"lineitem": 60174}, {"part": 1999}):
        with pytest.raises(DataError, match=r"scale factor 0\.01 has"):
            check_counts({**right, **wrong}, 0.01)
