"""`nyala backup` and `nyala restore` of a cluster with users: what the user's rights allow, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nyala
import pytest
from nyala.__main__ import main
from nyala.testing import MiniCluster

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with (
        MiniCluster(tservers=1, masters=1, options={"durability": "os"}) as cluster,
        nyala.connect(cluster.url) as owner,
    ):
        owner.execute(
            "CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1), (2); CREATE TABLE s (k INT PRIMARY KEY)"
        )
        owner.execute("CREATE USER ann PASSWORD 'of ann'; CREATE USER adm PASSWORD 'of adm' SUPERUSER")
        owner.execute("GRANT SELECT ON t TO ann")
        yield cluster.url


@pytest.fixture
def log_in(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("NYALA_USER", "adm")
    monkeypatch.setenv("NYALA_PASSWORD", "of adm")
    return monkeypatch


def test_a_superuser_saves_and_restores(
    url: str, tmp_path: Path, log_in: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = str(tmp_path / "saved")
    assert main(["backup", url, saved]) == 0
    assert main(["restore", saved, url, "--as", "t=t2", "--as", "s=s2"]) == 0
    with nyala.connect(url, user="adm", password="of adm") as adm:
        assert adm.execute("SELECT count(*) FROM t2").fetchall() == [(2,)]
        assert adm.store.table("t2").owner == ""  # restored tables belong to the store's own role
        assert ("table", "t", "ann", "SELECT", "nyala", False) in adm.execute("SHOW GRANTS").fetchall()
    assert main(["restore", saved, str(tmp_path / "other")]) == 0
    with nyala.connect(tmp_path / "other") as other:
        assert other.execute("SELECT count(*) FROM t").fetchall() == [(2,)]
        assert not other.store.access.has_users  # users and grants are not part of a backup
    capsys.readouterr()


@pytest.mark.parametrize(
    ("password", "why"),
    [("of ann", "permission denied for table s: user ann needs SELECT"), ("wrong", "password authentication failed")],
)
def test_what_a_user_may_not_read_is_not_saved(
    password: str,
    why: str,
    url: str,
    tmp_path: Path,
    log_in: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log_in.setenv("NYALA_USER", "ann")
    log_in.setenv("NYALA_PASSWORD", password)
    assert main(["backup", url, str(tmp_path / "saved")]) == 1
    assert why in capsys.readouterr().err
