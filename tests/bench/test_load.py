"""The load benchmark works and measures what it says."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nyala.bench import load
from nyala.errors import OperationalError
from rich.console import Console

CREATE = "CREATE TABLE lineitem (k BIGINT PRIMARY KEY, v STRING)"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "lineitem.parquet"
    pq.write_table(pa.table({"k": range(5000), "v": [f"v{i}" for i in range(5000)]}), path)
    return path


@pytest.mark.slow
def test_both_engines_load_all_rows(source, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    outcomes = load.compare(source, "lineitem", CREATE, runs=1, threads=1, work=work)
    for engine in load.ENGINES:
        (outcome,) = outcomes[engine]
        assert outcome.rows == 5000
        assert outcome.seconds > 0
        assert outcome.disk > 5000
        assert outcome.peak_memory > 1 << 20
    assert list(work.iterdir()) == []
    out = io.StringIO()
    load.show(outcomes, Console(file=out, width=100))
    assert "5,000 rows" in out.getvalue()
    assert "ratio" in out.getvalue()


def test_a_failing_load_tells_why(source):
    with pytest.raises(OperationalError, match=r"loading with nyala failed.*column v of .* is not in table lineitem"):
        load.compare(source, "lineitem", "CREATE TABLE lineitem (k BIGINT PRIMARY KEY)", runs=1)


def test_a_missing_file(tmp_path):
    with pytest.raises(OperationalError, match="there is no file"):
        load.compare(tmp_path / "x.parquet", "lineitem", CREATE)
