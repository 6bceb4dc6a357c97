"""`nyala diagnose`: one archive of a store in any state, in which no value of a row and no password is."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nyala
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.__main__ import main
from nyala.cli.diagnosis.masking import mask_text
from nyala.driver.session.statement_records import Records
from nyala.sql.masked_text import mask_plan, mask_statement

TEXT, NUMBER, BOUND, DEFAULT = "Zanzibar secret", 918273645, 564738291, "Reykjavik secret"
PASSWORD = "correct horse battery"
CANARIES = (TEXT, str(NUMBER), f"{NUMBER:,}", str(BOUND), DEFAULT, PASSWORD, "91827364.5", "hunter2", "Zanzibar")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose values would be recognised anywhere, with all kinds of files."""
    path = tmp_path_factory.mktemp("diagnose") / "db"
    with nyala.connect(path) as connection:
        connection.execute(
            f"CREATE TABLE t (k BIGINT NOT NULL, v STRING DEFAULT '{DEFAULT}', d DECIMAL(12, 1), PRIMARY KEY (k)) "
            f"PARTITION BY RANGE (k) (PARTITION VALUES < {BOUND}, PARTITION {BOUND} <= VALUES) COMMENT 'of {TEXT}'"
        )
        connection.execute(f"CREATE VIEW w AS SELECT k FROM t WHERE v = '{TEXT}'")
        connection.execute(f"INSERT INTO t VALUES ({NUMBER}, '{TEXT}', 91827364.5), (7, 'seven', 1)")
        connection.execute("COMPACT TABLE t")
        connection.execute("ANALYZE TABLE t")
        connection.execute("UPDATE t SET d = d + 1")
    (path / "owner.log").write_text(
        json.dumps({"level": "error", "message": f"write failed: key ({NUMBER}) has value '{TEXT}'"})
        + f"\nconnect nyala://ann:hunter2@db1:7050/ password={PASSWORD.replace(' ', '_')} api_key: hunter2\n"
        + "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\nan ordinary line\n"
    )
    return path


def diagnosed(target: Path | str, archive: Path) -> dict[str, str]:
    """The files of the archive that the command writes, as texts."""
    assert main(["diagnose", str(target), "-o", str(archive)]) == 0
    with zipfile.ZipFile(archive) as found:
        return {name: found.read(name).decode() for name in found.namelist()}


def check_canaries(parts: dict[str, str]) -> None:
    for name, text in parts.items():
        for canary in CANARIES:
            assert canary not in text, f"{canary!r} is in {name}"


def test_a_closed_store_shows_its_state_and_no_value(store: Path, tmp_path: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in store.rglob("*")}
    parts = diagnosed(store, tmp_path / "a.zip")
    assert {p: p.stat().st_mtime_ns for p in store.rglob("*")} == before
    check_canaries(parts)
    (table,) = json.loads(parts["tables.json"])["tables"]
    assert table["name"] == "t" and [column["name"] for column in table["columns"]] == ["k", "v", "d"]
    assert table["partitions"] == 2
    assert sum(rowset["rows"] for tablet in table["tablets"] for rowset in tablet["rowsets"]) == 2
    assert json.loads(parts["about.json"])["packages"]["pyarrow"]
    assert "rowset-00000001.bloom" in parts["files.txt"] and "an ordinary line" in parts["logs/00-owner.log.txt"]
    assert "no process serves" in parts["live.json"]


def test_a_served_store_shows_settings_and_statements(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nyala.cli.diagnosis.live_contents.SLOW_SECONDS", 0)
    monkeypatch.setattr("nyala.cli.diagnosis.live_contents.SLOW_STATEMENTS", 1000)
    # The process's records have statements of other tests, too, of which some took longer.
    monkeypatch.setattr("nyala.driver.session.statement_records._records", Records())
    with nyala.connect(store) as connection:
        url = connection.serve()
        connection.execute(f"SELECT count(*) FROM t WHERE v = '{TEXT}' AND k > {NUMBER}").fetchall()
        with pytest.raises(nyala.Error):
            connection.execute(f"INSERT INTO t VALUES ({NUMBER}, '{TEXT}', 1)")
        for target in (store, url):
            parts = diagnosed(target, tmp_path / "b.zip")
            check_canaries(parts)
            assert any(row["name"] == "engine" for row in json.loads(parts["settings.json"]))
            assert "health" in json.loads(parts["cluster.json"])
            for name in ("metrics", "statements", "tablets", "rowsets", "operations"):
                assert isinstance(json.loads(parts[f"{name}.json"]), list), name
            statements = json.loads(parts["statements.json"])
            (select,) = [row for row in statements if row["statement"].startswith("SELECT count(*) FROM t WHERE v = ?")]
            assert any("v = ?" in line for line in select["plan"])


def damage(path: Path) -> None:
    path.write_bytes(b"damaged")


@pytest.mark.parametrize(
    ("name", "change"), [("catalog", damage), ("catalog", Path.unlink), ("FORMAT", damage), ("FORMAT", Path.unlink)]
)
def test_a_damaged_store_is_diagnosed(tmp_path: Path, name: str, change: Callable[[Path], Any]) -> None:
    with nyala.connect(tmp_path / "db") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
    change(tmp_path / "db" / name)
    parts = diagnosed(tmp_path / "db", tmp_path / "c.zip")
    assert "metadata" in parts["files.txt"] and "about.json" in parts
    if name == "catalog" and change is damage:
        assert "error" in json.loads(parts["tables.json"])


def test_wrong_targets_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(tmp_path / "none"), "-o", str(tmp_path / "d.zip")]) == 1
    assert "there is no directory" in capsys.readouterr().err
    assert main(["diagnose", str(tmp_path), "-o", str(tmp_path / "d.tar")]) == 1
    assert "is a zip file: name it d.tar.zip" in capsys.readouterr().err
    assert main(["diagnose", str(tmp_path), "-o", str(tmp_path / "no" / "d.zip")]) == 1
    assert "cannot write" in capsys.readouterr().err


LITERALS = st.text(st.characters(exclude_characters="'\\", exclude_categories=["Cs", "Cc"]), min_size=4, max_size=30)


@settings(max_examples=examples(300), deadline=None)
@given(text=LITERALS.map(lambda s: f"Q{s}Q"), number=st.integers(10_000, 1 << 62), fraction=st.floats(1000.5, 1e300))
def test_no_literal_is_left_in_statements_plans_and_logs(text: str, number: int, fraction: float) -> None:
    quoted = "'" + text + "'"
    comment = text.replace("/", "")  # which neither ends in its middle nor begins another
    statement = (
        f"INSERT INTO t (a, b) VALUES ({quoted}, {number}) /* {comment} */ ON CONFLICT DO NOTHING; "
        f"SELECT x'{number}', {fraction!r} FROM t WHERE a IN ({quoted}, DATE '2026-01-02') AND -{number} < b -- {text}"
    )
    masked = mask_statement(statement)
    plan = mask_plan(
        f"Filter t.a = {quoted} AND t.b > {number} OR c < {fraction!r}  (~20 rows)\n  Scan t  k in [{number}, {number})"
    )
    log = mask_text(f"refused row ({quoted}, {number}): password={number} nyala://u:{number}@h:1 {quoted}")
    for found in (masked, plan, log):
        assert text not in found and comment not in found and str(number) not in found and repr(fraction) not in found
    assert "t.a = ?" in plan and "(~20 rows)" in plan and "Scan t" in plan
    assert masked.startswith("INSERT INTO t (a, b) VALUES (?, ?)")
