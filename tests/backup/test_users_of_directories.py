"""Users of directories: copies of the files have them, backups have not, and an embedded store has all rights."""

from __future__ import annotations

from pathlib import Path

import nyala
import pytest
from nyala.__main__ import main
from nyala.errors import InvalidPassword, PermissionDenied

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with nyala.connect(tmp_path / "store") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
        connection.execute("CREATE TABLE hers (k INT PRIMARY KEY)")
        connection.execute("CREATE USER ann PASSWORD 'of ann'; ALTER TABLE hers OWNER TO ann; GRANT SELECT ON t TO ann")
    return tmp_path / "store"


def test_the_process_that_opens_a_directory_has_all_rights(store: Path) -> None:
    with nyala.connect(store) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("nyala",)
        connection.execute("INSERT INTO hers VALUES (1); INSERT INTO t VALUES (3)")
        connection.execute("SET ROLE ann")
        with pytest.raises(PermissionDenied, match="permission denied for table t: user ann needs INSERT"):
            connection.execute("INSERT INTO t VALUES (4)")


def test_a_copy_of_the_files_has_the_users(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copied = store.with_name("copied")
    assert main(["fs", "copy", str(store), str(copied)]) == 0
    capsys.readouterr()
    with nyala.connect(copied) as connection:
        with nyala.connect(store) as original:
            assert connection.execute("SHOW GRANTS").fetchall() == original.execute("SHOW GRANTS").fetchall()
        url = connection.serve()
        with nyala.connect(url, user="ann", password="of ann") as ann:
            assert ann.execute("SELECT count(*) FROM t").fetchone() == (2,)
            ann.execute("INSERT INTO hers VALUES (1)")
            with pytest.raises(PermissionDenied, match="permission denied for table t: user ann needs INSERT"):
                ann.execute("INSERT INTO t VALUES (4)")
        with pytest.raises(InvalidPassword):
            nyala.connect(url, user="ann", password="wrong")


def test_a_backup_has_no_users_and_a_restored_table_is_the_stores_own(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, other = store.with_name("saved"), store.with_name("other")
    assert main(["backup", str(store), str(saved)]) == 0
    with nyala.connect(other) as connection:
        connection.execute("CREATE USER ann PASSWORD 'other'")
    assert main(["restore", str(saved), str(other)]) == 0
    capsys.readouterr()
    with nyala.connect(other) as connection:
        assert connection.store.table("hers").owner == ""
        assert not any(grant[2] == "ann" for grant in connection.execute("SHOW GRANTS").fetchall())
        with nyala.connect(connection.serve(), user="ann", password="other") as ann:
            for name in ("t", "hers"):
                with pytest.raises(PermissionDenied, match=f"for table {name}: user ann needs SELECT"):
                    ann.execute(f"SELECT * FROM {name}")
