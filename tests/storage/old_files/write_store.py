"""Writes the small store that tests of upgrades open: run it with the version of nyala whose files are to be kept.

    python write_store.py ARCHIVE.zip

The archive has a copy of the directory, taken while the store is open and at rest: base data, deltas, rows that are in
logs alone. Statements are such as the first versions have; a version executes the last ones if it can.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import nyala

STATEMENTS = (
    "CREATE TABLE readings (station STRING NOT NULL, n BIGINT NOT NULL, at TIMESTAMP, day DATE, degrees DOUBLE, "
    "rain DECIMAL(9, 2), remark STRING, ok BOOLEAN, PRIMARY KEY (station, n)) "
    "PARTITION BY HASH (station) PARTITIONS 3",
    "CREATE TABLE stations (id BIGINT NOT NULL, name STRING, PRIMARY KEY (id)) "
    "PARTITION BY RANGE (id) (PARTITION VALUES < 100, PARTITION 100 <= VALUES)",
    "CREATE VIEW warm AS SELECT station, n, degrees FROM readings WHERE degrees > 20",
    *(
        f"INSERT INTO readings VALUES ('station {n % 7}', {n}, TIMESTAMP '2026-11-22 04:00:{n % 60:02}', "
        f"DATE '2026-11-{n % 28 + 1:02}', {n} / 4.0, {n}.25, 'remark {n % 5}', {'TRUE' if n % 2 else 'FALSE'})"
        for n in range(60)
    ),
    "INSERT INTO readings (station, n) VALUES ('empty', 1000)",
    *(f"INSERT INTO stations VALUES ({n}, 'station {n}')" for n in (*range(7), *range(100, 107))),
    "COMPACT TABLE readings",
    "COMPACT TABLE stations",
    "UPDATE readings SET degrees = degrees + 1, remark = 'corrected' WHERE n BETWEEN 10 AND 19",
    "DELETE FROM readings WHERE n = 20",
    "DELETE FROM stations WHERE id = 3",
    "ALTER TABLE readings ADD COLUMN later BIGINT DEFAULT 7",
    "INSERT INTO readings (station, n, degrees) VALUES ('new', 2000, 30), ('new', 2001, 31), ('other', 2002, 32)",
    "UPDATE stations SET name = 'moved' WHERE id IN (5, 105)",
)
MAYBE = (
    "ANALYZE TABLE readings",
    "BEGIN; INSERT INTO stations VALUES (50, 'both'), (150, 'both'); UPDATE readings SET ok = NULL WHERE n = 1; COMMIT",
    "INSERT INTO stations VALUES (51, 'last'), (151, 'last')",
)
"""Of later versions. The last two are executed only together, and the rows of 50 show it."""


def main(archive: Path) -> None:
    """Write the archive."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        connection = nyala.connect(str(path))
        cursor = connection.cursor()
        for statement in STATEMENTS:
            cursor.execute(statement)
        connection.commit()
        for statement in MAYBE:
            try:
                cursor.execute(statement)
            except Exception as error:
                print(f"without {statement[:40]}: {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)
                break
        copy = Path(folder) / "copy"
        shutil.copytree(path, copy)
        connection.close()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as found:
            for file in sorted(copy.rglob("*")):
                if file.is_file():
                    found.write(file, file.relative_to(copy))
                elif not any(file.iterdir()):
                    found.writestr(f"{file.relative_to(copy)}/", "")
    print(archive, archive.stat().st_size)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
