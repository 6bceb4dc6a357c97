"""Repairs that lose nothing: each is a `Step`, found by reading alone and then executed.

FORMAT           written anew if the catalog can be read: its content is a constant
Bloom filters    made anew from the key columns of their rowset, if these can be read
statistics       removed if damaged: ANALYZE TABLE makes them anew, and queries are right without them
files of rowsets removed if no metadata names them, and all metadata and load records of the table can be read
*.tmp            of a replacement that did not happen: removed
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ....errors import CorruptionError, Error, OperationalError
from ....model.lazy_dataclass import dataclass
from ....model.schema import Schema
from ...files.checked_file import TEMPORARY_SUFFIX, read_checked
from ...files.filesystem import FileSystem
from ...files.page_cache import PageCache
from ...keys.bloom import BloomReader
from ...loads.load_record import PREFIX, LoadRecord
from ...maintenance.derived_files import write_filter
from ...rowsets.disk_rowset import DiskRowSet
from ...rowsets.rowset_metadata import RowSetMetadata, rowset_files
from ...statistics.analysis import FILE as STATISTICS
from ...statistics.analysis import MAGIC as STATISTICS_MAGIC
from ...statistics.analysis import VERSION as STATISTICS_VERSION
from ...tables.catalog import Catalog, CatalogEntry
from ...tables.store_directory import FORMAT, write_format
from ...tablet.tablet_metadata import TabletMetadata
from ..files import read_file

REMOVE, WRITE_FORMAT, REBUILD = "remove", "write", "rebuild"
_CACHE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Step:
    """One repair.

    Parameters
    ----------
    kind : {"remove", "write", "rebuild"}
    path : str
        The file.
    why : str
    schema, rowset : Schema, RowSetMetadata
        Of a Bloom filter: the columns of the key, and its rowset.
    """

    kind: str
    path: str
    why: str
    schema: Schema | None = None
    rowset: RowSetMetadata | None = None

    def describe(self, is_done: bool) -> str:
        """The step as a line.

        >>> Step(REMOVE, "db/x.tmp", "left of a crash").describe(is_done=False)
        'would remove db/x.tmp: left of a crash'
        """
        past = {REMOVE: "removed", WRITE_FORMAT: "wrote", REBUILD: "rebuilt"}[self.kind]
        return f"{past if is_done else f'would {self.kind}'} {self.path}: {self.why}"

    def execute(self, fs: FileSystem) -> None:
        """Do it, durably. `DiskError` if the disk fails: nothing has changed then."""
        directory = self.path.rpartition("/")[0]
        if self.kind == WRITE_FORMAT:
            write_format(fs, directory, FORMAT)
        elif self.kind == REMOVE:
            fs.remove(self.path)
            fs.sync_directory(directory)
        else:
            assert self.schema is not None and self.rowset is not None
            rowset = _key_rowset(fs, directory, self.schema, self.rowset)
            write_filter(fs, directory, self.schema, rowset)
            rowset.close()


def find_steps(fs: FileSystem, directory: str) -> list[Step]:
    """The repairs that a store needs; nothing is changed. Without the catalog there are none: it names all else."""
    try:
        catalog = Catalog.read(fs, f"{directory}/catalog")
    except OperationalError:
        return []
    steps = [] if _has_format(fs, directory) else [Step(WRITE_FORMAT, f"{directory}/FORMAT", "missing or damaged")]
    for name in ("catalog", "FORMAT"):
        steps += _temporary(fs, directory, [name])
    for entry in catalog.entries.values():
        steps += _table_steps(fs, f"{directory}/tables/{entry.table.id}", entry)
    return steps


def _has_format(fs: FileSystem, directory: str) -> bool:
    """False if FORMAT is missing or damaged; True also for that of another version, or of another kind of directory."""
    path = f"{directory}/FORMAT"
    if not fs.exists(path):
        return False
    content = read_file(fs, path)
    # A damaged line has no other version's form: "nyala <kind>, format <number>".
    return content == FORMAT or (content.startswith(b"nyala ") and b", format " in content and content[-1:] == b"\n")


def _temporary(fs: FileSystem, directory: str, names: list[str]) -> Iterator[Step]:
    for name in names:
        path = f"{directory}/{name}{TEMPORARY_SUFFIX}"
        if fs.exists(path):
            yield Step(REMOVE, path, "left of a replacement that did not happen")


def _table_steps(fs: FileSystem, directory: str, entry: CatalogEntry) -> Iterator[Step]:
    if not fs.exists(directory):
        return
    yield from _temporary(fs, directory, [STATISTICS])
    if fs.exists(f"{directory}/{STATISTICS}"):
        try:
            read_checked(fs, f"{directory}/{STATISTICS}", STATISTICS_MAGIC, STATISTICS_VERSION)
        except CorruptionError:
            why = "damaged; ANALYZE TABLE makes it anew, it has no data"
            yield Step(REMOVE, f"{directory}/{STATISTICS}", why)
    metadata: dict[str, TabletMetadata] = {}
    for tablet_id in entry.tablet_ids:
        with contextlib.suppress(OperationalError):
            metadata[tablet_id] = TabletMetadata.read(fs, f"{directory}/{tablet_id}", tablet_id)
    is_known = _apply_loads(fs, directory, metadata) and len(metadata) == len(entry.tablet_ids)
    keys = Schema(entry.table.schema.key, entry.table.schema.key_columns)
    for tablet_id, known in metadata.items():
        yield from _temporary(fs, f"{directory}/{tablet_id}", ["metadata"])
        yield from _tablet_steps(fs, f"{directory}/{tablet_id}/rowsets", keys, known, is_known)


def _apply_loads(fs: FileSystem, directory: str, metadata: dict[str, TabletMetadata]) -> bool:
    """Add what bulk loads have published to `metadata`; False if a record cannot be read."""
    is_known = True
    for name in fs.list(directory):
        if not name.startswith(PREFIX) or name.endswith(TEMPORARY_SUFFIX):
            continue
        try:
            record = LoadRecord.read(fs, f"{directory}/{name}")
        except OperationalError:
            is_known = False
            continue
        for tablet_id, load in record.tablets.items():
            if tablet_id in metadata and metadata[tablet_id].last_load < record.timestamp:
                metadata[tablet_id] = load.applied_to(metadata[tablet_id], record.timestamp)
    return is_known


def _tablet_steps(
    fs: FileSystem, directory: str, schema: Schema, metadata: TabletMetadata, is_known: bool
) -> Iterator[Step]:
    """Steps for one folder of rowsets; `is_known` if nothing but `metadata` can name a file in it."""
    if not fs.exists(directory):
        return
    for rowset in metadata.rowsets:
        path = f"{directory}/{rowset.bloom_file}"
        why = "the file is missing" if not fs.exists(path) else _damage_of_filter(fs, path, rowset)
        if why and _has_keys(fs, directory, schema, rowset):
            yield Step(REBUILD, path, f"{why}; its rowset's keys can be read", schema, rowset)
    if is_known:
        wanted = {name for rowset in metadata.rowsets for name in rowset_files(rowset)}
        for name in fs.list(directory):
            # Other names may be anything: a person's file is not removed.
            if name not in wanted and name.startswith("rowset-"):
                yield Step(REMOVE, f"{directory}/{name}", "no metadata and no load record names it")


def _damage_of_filter(fs: FileSystem, path: str, rowset: RowSetMetadata) -> str:
    cache = PageCache(0)
    reader = BloomReader(cache.handles(fs), path, rowset.row_count, cache)
    try:
        reader.check()
    except CorruptionError as error:
        return f"damaged at {error.place}"
    except Exception as error:  # good checksums, and nothing that the reader understands
        return f"cannot be read: {type(error).__name__}"
    finally:
        reader.close()
    return ""


def _key_rowset(fs: FileSystem, directory: str, schema: Schema, rowset: RowSetMetadata) -> DiskRowSet:
    return DiskRowSet.open(fs, directory, schema, rowset, PageCache(_CACHE_BYTES))


def _has_keys(fs: FileSystem, directory: str, schema: Schema, metadata: RowSetMetadata) -> bool:
    """True if all pages of the key columns can be read."""
    try:
        rowset = _key_rowset(fs, directory, schema, metadata)
        for column in schema.key:
            reader = rowset.reader(column.id)
            if reader is None:
                return False
            for page in range(len(reader.footer.pages)):
                reader.page(page)
        rowset.close()
    except (Error, KeyError):
        return False
    return True
