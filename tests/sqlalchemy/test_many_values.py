"""Thousands of values in one statement, as SQLAlchemy and pandas send them: linear work, and right answers."""

from __future__ import annotations

import pandas as pd
import pytest
import sqlalchemy as sa
from work_support import growth


def _table(engine: sa.Engine) -> sa.Table:
    table = sa.Table("t", sa.MetaData(), sa.Column("k", sa.Integer, primary_key=True), sa.Column("s", sa.String))
    table.create(engine)
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"k": i, "s": f"s{i}"} for i in range(100)])
    return table


@pytest.mark.slow
def test_in_of_thousands(engine: sa.Engine) -> None:
    table = _table(engine)
    with engine.connect() as connection:

        def count(values: list[int]) -> int:
            return connection.execute(sa.select(sa.func.count()).where(table.c.k.in_(values))).scalar_one()

        assert count(list(range(50, 5_050))) == 50
        pairs = sa.tuple_(table.c.k, table.c.s).in_([(i, f"s{i % 90}") for i in range(1_000)])
        assert connection.execute(sa.select(sa.func.count()).where(pairs)).scalar_one() == 90
        assert growth(lambda n: count(list(range(n))), 400) < 2.6


@pytest.mark.slow
def test_rows_in_one_insert(engine: sa.Engine) -> None:
    frame = pd.DataFrame(
        {"a": range(2_000), "b": [i * 0.5 for i in range(2_000)], "c": [f"s{i}" for i in range(2_000)]}
    )
    assert frame.to_sql("large", engine, index=False, method="multi") == 2_000
    pd.testing.assert_frame_equal(pd.read_sql("SELECT * FROM large ORDER BY a", engine), frame)

    def write(n: int) -> None:
        frame.head(n).to_sql("small", engine, index=False, method="multi", if_exists="replace")

    assert growth(write, 150) < 2.6
