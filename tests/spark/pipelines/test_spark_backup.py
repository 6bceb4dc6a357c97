"""Backups and restores by Spark's workers; `tests/backup` has what they have in common with threads."""

import nyala
import pyarrow as pa
from nyala.spark.pipelines.backup import backup, verify
from nyala.spark.pipelines.restore import restore


def test_backup_and_restore_run_on_spark(spark, tmp_path):
    place, told = tmp_path / "store", []
    with nyala.connect(place) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1), (2, 2)")
        made = backup(spark, place, tmp_path / "saved", progress=told.append)
        assert made.backup.rows == 2 and told[-1].is_over and told[-1].rows == 2
        connection.execute("DELETE FROM t WHERE k = 1")
        assert backup(spark, place, tmp_path / "saved").backup.rows == 1
        assert verify(spark, tmp_path / "saved")[1] == []
        restored = restore(spark, tmp_path / "saved", place, at=made.backup.snapshot, renamed={"t": "old"})
        assert restored.tables == {"old": 2}
        assert connection.execute("SELECT * FROM old ORDER BY k").arrow() == pa.table(
            {"k": pa.array([1, 2], pa.int32()), "v": pa.array([1, 2], pa.int32())}
        )
