"""CREATE TABLE: the files first, the catalog durable last: a table is there with all its files, or not at all."""

from __future__ import annotations

from dataclasses import replace

from ...errors import DiskError
from ...model.schema import TableDefinition
from .catalog import Catalog
from .durable_catalog import DurableCatalog
from .table_folders import TableFolders
from .table_store import TableStore


def create_table(
    catalog: DurableCatalog, folders: TableFolders, definition: TableDefinition
) -> tuple[Catalog, TableStore]:
    """Make a table, durably: the catalog with it, which is on the disk and not yet the current one, and the open table.

    Raises `DuplicateTable`, `InvalidTableDefinition`, or `DiskError` with nothing done.
    """
    catalog.current.check_new(definition)
    changed = catalog.current.with_table(definition)
    # Whatever happens from here on, the number is taken.
    catalog.current = replace(catalog.current, next_table=changed.next_table)
    store = folders.make(changed.entries[definition.name])
    try:
        catalog.write(changed)
    except DiskError:
        # The catalog that names the table may be on the disk until the current one is written again.
        folders.drop(store, lambda: catalog.is_durable)
        raise
    return changed, store
