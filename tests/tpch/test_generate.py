"""Generating data: kept files are used again, wrong ones refused."""

import shutil

import pyarrow.parquet as pq
import pytest
from nyala.errors import DataError, OperationalError
from nyala.tpch import generate as module
from nyala.tpch.generate import check_scale, default_data_directory, generate, parquet_file, row_counts
from nyala.tpch.schema import TABLES


def test_files_have_the_tables_columns(parquet_directory):
    for spec in TABLES:
        names = pq.read_schema(parquet_file(parquet_directory, spec.name)).names
        assert sorted(names) == sorted(name for name, _ in spec.columns)
        assert list(spec.key) == [name for name, _ in spec.columns[: len(spec.key)]]


def test_files_are_used_again(parquet_directory, monkeypatch):
    monkeypatch.setattr(module, "find_generator", lambda: pytest.fail("it must not generate again"))
    said = []
    assert generate(0.01, parquet_directory, said.append) == parquet_directory
    assert said == [f"using the Parquet files in {parquet_directory}"]


def test_files_of_another_scale_are_refused(parquet_directory):
    with pytest.raises(DataError, match=r"supplier.parquet has 100 rows, where scale factor 0.1 has 1,000"):
        check_scale(0.1, parquet_directory)


def test_a_damaged_file_is_named(parquet_directory, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(parquet_directory, copy)
    (copy / "part.parquet").write_bytes(b"not parquet at all")
    with pytest.raises(DataError, match=r"part\.parquet is not a readable Parquet file"):
        row_counts(copy)


def test_a_missing_generator_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(module.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OperationalError, match=r"pip install 'nyala\[tpch\]'"):
        generate(0.01, tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


def test_a_generator_that_fails_leaves_nothing(tmp_path, monkeypatch):
    program = tmp_path / "tpchgen-cli"
    program.write_text("#!/bin/sh\necho 'no space' >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(module, "find_generator", lambda: program)
    with pytest.raises(OperationalError, match=r"failed \(exit 3\): no space"):
        generate(0.01, tmp_path / "data")
    assert [path.name for path in tmp_path.iterdir()] == ["tpchgen-cli"]


def test_files_go_beside_the_database(tmp_path):
    assert default_data_directory(tmp_path / "db", 0.1) == tmp_path / "tpch-parquet-sf0.1"
