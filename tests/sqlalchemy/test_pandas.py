"""DataFrames in and out: to_sql in all its ways, read_sql with the right dtypes."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa


@pytest.fixture
def frame() -> Any:
    return pd.DataFrame(
        {
            "whole": [3, 1, 2],
            "half": [1.5, None, 2.5],
            "text": ["x", None, "ü"],
            "moment": pd.to_datetime(["2026-01-01 10:00:00.123456", None, "2027-01-01"], format="ISO8601").as_unit(
                "us"
            ),
            "flag": [True, False, True],
        }
    )


@pytest.mark.parametrize("options", [{}, {"chunksize": 2}, {"method": "multi"}, {"method": "multi", "chunksize": 2}])
def test_there_and_back(engine: sa.Engine, frame: Any, options: dict[str, Any]) -> None:
    assert frame.to_sql("t", engine, index=False, **options) == 3
    back = pd.read_sql("SELECT * FROM t", engine)
    pd.testing.assert_frame_equal(back, frame)
    assert frame.to_sql("t", engine, index=False, if_exists="append", **options) == 3
    assert len(pd.read_sql_table("t", engine)) == 6


def test_the_index_comes_along(engine: sa.Engine, frame: Any) -> None:
    frame = frame.set_index("whole")
    frame.to_sql("t", engine)
    pd.testing.assert_frame_equal(pd.read_sql_table("t", engine, index_col="whole"), frame)


def test_replace_and_fail(engine: sa.Engine, frame: Any) -> None:
    frame.to_sql("t", engine, index=False)
    with pytest.raises(ValueError, match="already exists"):
        frame.to_sql("t", engine)
    frame[["text"]].to_sql("t", engine, index=False, if_exists="replace")
    assert pd.read_sql_table("t", engine).columns.to_list() == ["text"]


def test_types_are_as_wide_as_the_frames(engine: sa.Engine) -> None:
    kinds = {
        "i8": "int8",
        "i16": "int16",
        "i32": "int32",
        "i64": "int64",
        "f32": "float32",
        "f64": "float64",
        "b": "bool",
    }
    pd.DataFrame({name: pd.Series([1], dtype=dtype) for name, dtype in kinds.items()}).to_sql("t", engine, index=False)
    types = {column["name"]: str(column["type"]) for column in sa.inspect(engine).get_columns("t")}
    assert types == {
        "i8": "SMALLINT", "i16": "SMALLINT", "i32": "INTEGER", "i64": "BIGINT",
        "f32": "REAL", "f64": "DOUBLE", "b": "BOOLEAN",
    }  # fmt: skip


def test_queries_with_parameters_and_pieces(engine: sa.Engine, frame: Any) -> None:
    frame.to_sql("t", engine, index=False, dtype={"half": sa.Numeric(5, 2)})
    query = sa.text("SELECT count(*) AS n, max(half) AS h FROM t WHERE whole > :w")
    found = pd.read_sql(query, engine, params={"w": 1}, coerce_float=False)
    assert found["n"].to_list() == [2] and str(found["h"][0]) == "2.50"
    pieces = list(pd.read_sql_query("SELECT whole FROM t ORDER BY whole", engine, chunksize=2))
    assert [piece["whole"].to_list() for piece in pieces] == [[1, 2], [3]]
    dated = pd.read_sql_table("t", engine, columns=["moment"])
    assert str(dated.dtypes["moment"]) == "datetime64[us]"


@pytest.mark.embedded_only("changes the catalog inside a transaction, which other stores refuse")
def test_a_table_is_replaced_as_a_whole(engine: sa.Engine) -> None:
    """A frame that cannot be written leaves the table, its columns and its rows as they were. (Of an engine, pandas
    commits what it has written before an error.)"""
    pd.DataFrame({"a": [1, 2]}).to_sql("t", engine, index=False)
    wrong = pd.DataFrame({"b": [1, 2, 3], "c": ["x", "y", object()]})
    with pytest.raises(pd.errors.DatabaseError), engine.begin() as connection:
        wrong.to_sql("t", connection, index=False, if_exists="replace", dtype={"c": sa.String}, chunksize=1)
    assert pd.read_sql("SELECT * FROM t ORDER BY a", engine).to_dict("list") == {"a": [1, 2]}
    with engine.connect() as reader:
        assert reader.execute(sa.text("SELECT * FROM t ORDER BY a")).all() == [(1,), (2,)]
        wrong[:2].to_sql("t", engine, index=False, if_exists="replace", chunksize=1)
    assert pd.read_sql("SELECT * FROM t ORDER BY b", engine)[["b", "c"]].to_dict("list") == {
        "b": [1, 2], "c": ["x", "y"]
    }  # fmt: skip
