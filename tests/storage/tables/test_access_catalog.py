"""Users and grants in the catalog: durable with one replacement of its file, in transactions, and gone with what they
are about."""

from __future__ import annotations

import random

import pytest
from crash_support import CrashImages
from nyala.errors import DuplicateRole, SerializationFailure
from nyala.model.access.rights import Right, secured, view_key
from nyala.model.access.roles import STORE_ROLE, Access, Grant, Role
from nyala.model.access.steps import AddGrant, CreateRole, DropRole, PermitNoUsers
from nyala.model.alterations import SetOwner
from nyala.model.schema import View
from nyala.storage.database import Database
from nyala.storage.files.checked_file import read_checked
from nyala.storage.files.memory_filesystem import CrashableFileSystem
from nyala.storage.tables.catalog import MAGIC, VERSION
from tablet_support import definition

VIEW = View("v", "SELECT 1 AS one", ("one",))


def create(*names: str) -> list[CreateRole]:
    return [CreateRole(Role(name, can_login=True, verifier=f"secret of {name}")) for name in names]


def select_on(key: str, grantee: str, grantor: str = STORE_ROLE) -> AddGrant:
    return AddGrant(Grant(key, Right.SELECT, grantee, grantor))


def test_a_crash_keeps_a_change_whole_or_not_at_all() -> None:
    fs = CrashableFileSystem()
    with Database("db", fs=fs, background=False) as db:
        table = db.create_table(definition("t"))
        crashes = CrashImages(fs)
        fs.on_sync = crashes.note
        db.change_access([*create("ann"), select_on(table.id, "ann")])
        acknowledged = crashes.acknowledge()
        fs.on_sync = None
    seen = set()
    for image in [image for _, image in crashes.images]:
        with Database("db", fs=image.crash(0.0, random.Random(1)), background=False) as db:
            allowed = db.access.allows("ann", Right.SELECT, secured(db.table("t")))
            assert db.access.has_users == allowed
            seen.add(allowed)
    assert False in seen and acknowledged is not None
    with Database("db", fs=fs.crash(0.0, random.Random(1)), background=False) as db:
        assert db.access.roles["ann"].verifier == "secret of ann"
        assert db.access.allows("ann", Right.SELECT, secured(db.table("t")))


def test_a_store_without_users_is_written_for_earlier_versions() -> None:
    fs = CrashableFileSystem()
    with Database("db", fs=fs, background=False) as db:
        db.create_table(definition("t"))
        assert "access" not in read_checked(fs, "db/catalog", MAGIC, VERSION - 1)
        db.change_access(create("ann"))
        assert "access" in read_checked(fs, "db/catalog", MAGIC, VERSION)


def test_a_transaction_creates_users_with_its_commit() -> None:
    with Database(":memory:", background=False) as db:
        inside = db.begin()
        inside.change_access(create("ann"))
        mark = inside.savepoint()
        inside.change_access(create("ben"))
        inside.rollback_to(mark)
        assert set(inside.access.roles) == {"ann"} and db.access is not inside.access
        assert db.access == Access()
        inside.commit()
        assert set(db.access.roles) == {"ann"}
        undone = db.begin()
        undone.change_access([PermitNoUsers(), DropRole("ann")])
        undone.rollback()
        assert set(db.access.roles) == {"ann"}


def test_transactions_that_create_the_same_user_conflict() -> None:
    with Database(":memory:", background=False) as db:
        one, other = db.begin(), db.begin()
        one.change_access(create("ann"))
        other.change_access(create("ann"))
        one.commit()
        with pytest.raises(SerializationFailure, match="users or grants were changed by another transaction"):
            _ = other.access
        with pytest.raises(SerializationFailure, match="role ann exists already: users or grants were changed"):
            other.commit()
        with pytest.raises(DuplicateRole):
            db.change_access(create("ann"))


def test_a_transaction_loses_rights_that_are_revoked_meanwhile() -> None:
    with Database(":memory:", background=False) as db:
        db.change_access(create("ann"))
        inside = db.begin()
        before = inside.access
        db.change_access([PermitNoUsers(), DropRole("ann")])
        assert before is not inside.access and not inside.access.has_users


@pytest.mark.parametrize("transactional", [False, True])
def test_grants_go_with_their_object(transactional: bool) -> None:
    with Database(":memory:", background=False) as db:
        table = db.create_table(definition("t"))
        db.create_view(VIEW)
        db.change_access([*create("ann"), select_on(table.id, "ann"), select_on(view_key("v"), "ann")])
        store = db.begin() if transactional else db
        store.create_view(VIEW, replace=True)
        assert store.access.allows("ann", Right.SELECT, secured(VIEW)), "OR REPLACE keeps grants"
        store.drop_views(["v"])
        store.create_view(VIEW)
        store.drop_table("t")
        assert not store.access.allows("ann", Right.SELECT, secured(VIEW))
        if transactional:
            store.commit()
        assert not db.access.allows("ann", Right.SELECT, secured(VIEW))
        db.change_access([PermitNoUsers(), DropRole("ann")])


@pytest.mark.parametrize("transactional", [False, True])
def test_a_new_owner_has_granted_what_the_old_one_had(transactional: bool) -> None:
    with Database(":memory:", background=False) as db:
        table = db.create_table(definition("t"))
        db.change_access([*create("ann", "ben", "cid"), select_on(table.id, "ben"), select_on(table.id, "cid")])
        store = db.begin() if transactional else db
        changed = store.alter_table("t", [SetOwner("ben")])
        store.change_access([AddGrant(Grant(table.id, Right.INSERT, "ann", "ben"))])
        if transactional:
            store.commit()
        owned = secured(db.table("t"))
        assert owned.owner == changed.owner == "ben" and db.access.owns("ben", owned)
        grants = {(grant.grantee, grant.grantor) for grant in db.access.grants_on([table.id])}
        assert grants == {("cid", "ben"), ("ann", "ben")}
