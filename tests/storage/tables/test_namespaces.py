"""Namespaces of an embedded store: durable, dropped with what is in them or not at all, and changed by transactions."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from nyala.errors import (
    DependentObjects,
    DiskError,
    DuplicateSchema,
    DuplicateTable,
    InvalidTableDefinition,
    SerializationFailure,
    UnknownSchema,
    UnknownTable,
)
from nyala.model.alterations import RenameTable
from nyala.model.namespaces import Namespace, full_name
from nyala.model.schema import View
from nyala.storage.database import Database
from nyala.storage.files.checked_file import read_checked
from nyala.storage.files.memory_filesystem import FaultyFileSystem, MemoryFileSystem
from nyala.storage.tables.catalog import MAGIC, VERSION, Catalog
from tablet_support import HASHED, definition, insert, read


def within(namespace: str, name: str = "t"):
    return replace(definition(full_name(namespace, name), HASHED), namespace=namespace)


def filled(db: Database) -> None:
    """Tables `t` with 1, 2 and 3 rows in public, a and b; a view in b."""
    for rows, namespace in enumerate(("public", "a", "b"), 1):
        if namespace != "public":
            db.create_namespace(Namespace(namespace))
        table = db.create_table(within(namespace))
        for key in range(rows):
            insert(db, table, [key])
    db.create_view(View("b.v", "SELECT k FROM b.t", ("k",), namespace="b"))


def test_tables_of_one_name_are_three_tables_also_after_the_next_opening():
    fs = MemoryFileSystem()
    with Database("db", fs=fs, background=False) as db:
        filled(db)
    with Database("db", fs=fs, background=False) as db:
        assert [namespace.name for namespace in db.namespaces()] == ["a", "b", "public"]
        found = {t.namespace: (t.name, t.local_name, len(read(db, t))) for t in db.tables()}
        assert found == {"a": ("a.t", "t", 2), "b": ("b.t", "t", 3), "public": ("t", "t", 1)}
        assert [(view.namespace, view.local_name) for view in db.views()] == [("b", "v")]


def catalog_version(fs: MemoryFileSystem) -> int:
    """The oldest version of the format that reads the catalog file."""
    for version in range(1, VERSION + 1):
        try:
            read_checked(fs, "db/catalog", MAGIC, version)
        except Exception:
            continue
        return version
    raise AssertionError("no version reads it")


def test_a_store_without_namespaces_is_written_as_before_there_were_any():
    fs = MemoryFileSystem()
    with Database("db", fs=fs, background=False) as db:
        db.create_table(within("public"))
        before = catalog_version(fs)
        assert before < VERSION
        db.create_namespace(Namespace("a"))
        assert catalog_version(fs) == VERSION
        db.drop_namespace("a")
        assert catalog_version(fs) == before


def test_what_is_refused():
    with Database("db", fs=MemoryFileSystem(), background=False) as db:
        filled(db)
        with pytest.raises(DuplicateSchema, match="schema a exists already"):
            db.create_namespace(Namespace("a"))
        with pytest.raises(UnknownSchema, match="schema c does not exist"):
            db.create_table(within("c"))
        with pytest.raises(UnknownSchema, match="schema c does not exist"):
            db.create_view(View("c.v", "SELECT 1", ("a",), namespace="c"))
        with pytest.raises(UnknownSchema, match="schema c does not exist"):
            db.alter_table("t", [RenameTable("c.t", "c")])
        with pytest.raises(DuplicateTable, match=r"a\.t exists already"):
            db.alter_table("t", [RenameTable("a.t", "a")])
        with pytest.raises(UnknownSchema):
            db.drop_namespace("c")
        with pytest.raises(InvalidTableDefinition, match="which every store has"):
            db.drop_namespace("public")
        with pytest.raises(DependentObjects, match=r"schema b has b\.t, b\.v; DROP SCHEMA"):
            db.drop_namespace("b")
        with pytest.raises(DependentObjects, match=r"schema b has b\.v;"):
            db.drop_namespace("b", ["b.t"])
        assert len(db.tables()) == 3 and len(db.views()) == 1


def test_a_namespace_goes_with_its_tables_and_views_in_one_step():
    fs = MemoryFileSystem()
    with Database("db", fs=fs, background=False) as db:
        filled(db)
        db.drop_namespace("b", ["b.t"], ["b.v"])
        assert [t.name for t in db.tables()] == ["a.t", "t"]
        assert not db.views()
    with Database("db", fs=fs, background=False) as db:
        assert [namespace.name for namespace in db.namespaces()] == ["a", "public"]
        assert len(fs.list("db/tables")) == 2


def test_a_disk_that_fails_drops_nothing():
    fs = FaultyFileSystem(MemoryFileSystem())
    with Database("db", fs=fs, background=False) as db:
        filled(db)
        fs.fail("write", "*catalog*", times=1)
        with pytest.raises(DiskError):
            db.drop_namespace("b", ["b.t"], ["b.v"])
        assert len(read(db, db.table("b.t"))) == 3
        db.drop_namespace("b", ["b.t"], ["b.v"])
        with pytest.raises(UnknownTable):
            db.table("b.t")


def test_a_table_moves_to_another_namespace_with_its_rows():
    with Database("db", fs=MemoryFileSystem(), background=False) as db:
        filled(db)
        db.create_namespace(Namespace("c"))
        moved = db.alter_table("b.t", [RenameTable("c.t", "c")])
        assert (moved.namespace, moved.local_name, len(read(db, moved))) == ("c", "t", 3)
        renamed = db.alter_table("c.t", [RenameTable("c.u")])
        assert (renamed.namespace, renamed.local_name) == ("c", "u")


# ---- transactions ----------------------------------------------------------------------------------------------------


def test_a_transaction_creates_and_fills_a_namespace_at_its_commit():
    fs = MemoryFileSystem()
    with Database("db", fs=fs, background=False) as db:
        inside = db.begin()
        inside.create_namespace(Namespace("a"))
        insert(inside, inside.create_table(within("a")), [1])
        assert [namespace.name for namespace in db.namespaces()] == ["public"]
        mark = inside.savepoint()
        inside.drop_namespace("a", ["a.t"])
        inside.rollback_to(mark)
        inside.commit()
        assert len(read(db, db.table("a.t"))) == 1
    with Database("db", fs=fs, background=False) as db:
        assert len(read(db, db.table("a.t"))) == 1


def test_a_transaction_drops_a_namespace_with_its_table():
    with Database("db", fs=MemoryFileSystem(), background=False) as db:
        filled(db)
        inside = db.begin()
        with pytest.raises(DependentObjects):
            inside.drop_namespace("a")
        inside.drop_namespace("a", ["a.t"])
        assert len(db.tables()) == 3
        inside.commit()
        assert [t.name for t in db.tables()] == ["b.t", "t"]
        assert [namespace.name for namespace in db.namespaces()] == ["b", "public"]


@pytest.mark.parametrize(
    ("inside", "outside", "message"),
    [
        (lambda t: t.create_namespace(Namespace("c")), lambda db: db.create_namespace(Namespace("c")), "was created"),
        (lambda t: t.drop_namespace("a", ["a.t"]), lambda db: db.drop_namespace("a", ["a.t"]), "was dropped"),
        (lambda t: t.create_table(within("a", "u")), lambda db: db.drop_namespace("a", ["a.t"]), "a was dropped"),
        (lambda t: t.create_view(View("a.v", "SELECT 1", ("x",), namespace="a")),
         lambda db: db.drop_namespace("a", ["a.t"]), "a was dropped"),
        (lambda t: t.drop_namespace("a", ["a.t"]), lambda db: db.create_table(within("a", "u")), r"a\.u was created"),
        (lambda t: t.alter_table("t", [RenameTable("a.u", "a")]),
         lambda db: db.drop_namespace("a", ["a.t"]), "a was dropped"),
    ],
)  # fmt: skip
def test_others_that_change_the_same_namespace_conflict(inside, outside, message):
    with Database("db", fs=MemoryFileSystem(), background=False) as db:
        filled(db)
        transaction = db.begin()
        inside(transaction)
        outside(db)
        with pytest.raises(SerializationFailure, match=message):
            transaction.commit()
        assert "c.t" not in [t.name for t in db.tables()]


def test_creations_at_the_same_time_make_each_namespace_once():
    with Database("db", fs=MemoryFileSystem(), background=False) as db:
        made: list[str] = []

        def create() -> None:
            for number in range(10):
                try:
                    db.create_namespace(Namespace(f"n{number}"))
                    made.append(f"n{number}")
                except DuplicateSchema:
                    pass

        threads = [threading.Thread(target=create) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(made) == sorted(set(made)) == [f"n{number}" for number in range(10)]
        assert len(db.namespaces()) == 11


def test_an_empty_catalog_has_the_default_namespace():
    assert [namespace.name for namespace in Catalog().all_namespaces()] == ["public"]
