"""`nyala fs check`: findings, and with `--repair` what was done about them."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq

from ..errors import InterfaceError
from ..model.disk_errors import disk_error
from ..sql.binding.tables.show_create import create_table_text
from ..storage.files.os_filesystem import OsFileSystem
from ..storage.inspect.check.check_store import check_store
from ..storage.inspect.check.findings import describe_report
from ..storage.inspect.repair.repair_store import Repair, propose_repair, repair_store
from ..storage.inspect.salvage import Salvage
from ..storage.tables.catalog import CatalogEntry


def check_command(arguments: argparse.Namespace) -> int:
    """`nyala fs check DIR [--repair]`: 1 where anything is wrong, or remains so."""
    fs, directory = OsFileSystem(), str(arguments.directory)
    if not arguments.repair:
        if arguments.save_to is not None:
            raise InterfaceError("--save-to is of --repair: a check writes nothing")
        report = check_store(fs, directory)
        repair = propose_repair(fs, directory, report)
        _print(repair, arguments.json, is_worth_a_line=bool(repair.steps or repair.tablets or not report.is_clean))
        return 0 if report.is_clean else 1
    saved = _SavedRows(arguments.save_to or _folder_beside(arguments.directory))
    repair = repair_store(fs, directory, saved.write)
    saved.write_report(repair)
    _print(repair, arguments.json, is_worth_a_line=True)
    return 0 if repair.remaining.is_clean else 1


def _print(repair: Repair, as_json: bool, is_worth_a_line: bool) -> None:
    if as_json:
        print(json.dumps({**repair.remaining.to_dict(), "repair": repair.to_dict()}, indent=2))
        return
    print(describe_report(repair.remaining))
    if is_worth_a_line:
        print("\n".join(repair.lines()))


def _folder_beside(directory: Path) -> Path:
    """A new name next to the store, not in it."""
    whole = directory.absolute()
    return whole.with_name(f"{whole.name}.saved-{datetime.now(UTC):%Y%m%d-%H%M%S}")


@dataclass(slots=True)
class _SavedRows:
    """The folder of saved rows: made with its first file."""

    folder: Path
    rows: dict[str, int] = field(default_factory=dict)

    def write(self, entry: CatalogEntry, tablet_id: str, salvage: Salvage) -> str:
        """Write TABLET.parquet, and TABLE.sql with the definition of the table."""
        path = self.folder / f"{tablet_id}.parquet"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            statement = create_table_text(entry.table)
            (self.folder / f"{entry.table.id}.sql").write_text(f"{statement};\n", encoding="utf-8")
            self.rows[tablet_id] = 0
            with pq.ParquetWriter(path, salvage.schema, compression="zstd") as writer:
                for batch in salvage.batches:
                    writer.write_batch(batch)
                    self.rows[tablet_id] += batch.num_rows
        except OSError as error:
            raise disk_error(f"cannot write {path}", error) from error
        return str(path)

    def write_report(self, repair: Repair) -> None:
        """Write report.json: what was saved of each tablet, and what is lost, by rowset and keys."""
        if not self.rows:
            return
        content = repair.to_dict()
        for tablet in content["tablets"]:
            tablet["rows"] = self.rows[tablet["tablet"]]
        path = self.folder / "report.json"
        try:
            path.write_text(json.dumps(content, indent=2), encoding="utf-8")
        except OSError as error:
            raise disk_error(f"cannot write {path}", error) from error
