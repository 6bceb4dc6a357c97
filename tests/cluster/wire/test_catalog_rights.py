"""Rights on the catalog and on rows, as servers decide on them by requests alone: those of a client that skips its own
checks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.cluster.wire.messages import catalog_methods, methods, namespace_methods, transaction_methods, user_methods
from nyala.cluster.wire.messages.access_plain import access_step_from_plain, access_step_to_plain
from nyala.cluster.wire.messages.plain import (
    definition_to_plain,
    namespace_to_plain,
    spec_to_plain,
    step_to_plain,
    view_to_plain,
)
from nyala.cluster.wire.messages.view_methods import RenameView
from nyala.cluster.wire.security.catalog_rights import check_catalog_change
from nyala.cluster.wire.security.table_rights import TableRights
from nyala.errors import PermissionDenied, ProtocolError
from nyala.model.access.holders import Holder
from nyala.model.access.rights import Right, schema_key, view_key
from nyala.model.access.roles import STORE_ROLE, Grant, Membership, Role
from nyala.model.access.steps import (
    AccessStep,
    AddGrant,
    AddMember,
    AlterRole,
    CreateRole,
    DropRole,
    ForgetObjects,
    RemoveGrant,
    RemoveMember,
)
from nyala.model.alterations import RenameTable, SetComment, SetOwner
from nyala.model.namespaces import Namespace, full_name
from nyala.model.predicates import Range
from nyala.model.schema import ColumnSchema, PartitionSchema, Schema, TableDefinition, View
from nyala.model.store import Op, ScanSpec
from nyala.model.types import INT
from nyala.storage.tables.catalog import Catalog

CALL = methods.Call("c", 1, 1)
SCHEMA = Schema((ColumnSchema("k", INT, nullable=False), ColumnSchema("v", INT)), 1)


def definition(name: str, owner: str = "", namespace: str = "public") -> dict[str, Any]:
    whole = TableDefinition(full_name(namespace, name), SCHEMA, PartitionSchema(), owner=owner, namespace=namespace)
    return definition_to_plain(whole)


def catalog(*steps: AccessStep) -> Catalog:
    """Tables `hers` of ann and `theirs`, a view `w` of both kinds, a schema of ann's."""
    made = Catalog().with_access([CreateRole(Role(name, can_login=True)) for name in ("ann", "ben", "carl")])
    made = made.with_access([CreateRole(Role("team")), AddMember(Membership("team", "ann", STORE_ROLE))])
    for name, owner in (("hers", "ann"), ("theirs", ""), ("common", "team")):
        made = made.with_table(TableDefinition(name, SCHEMA, PartitionSchema(), owner=owner))
    made = made.with_view(View("w", "SELECT 1", ("x",), "ann"), replaces=False)
    made = made.with_view(View("other", "SELECT 1", ("x",)), replaces=False)
    made = made.with_namespace(Namespace("mine", "ann"))
    return made.with_access(steps)


def create(name: str = "n", owner: str = "ann", namespace: str = "public") -> Any:
    return methods.CreateTable(definition=definition(name, owner, namespace), replicas=None, call=CALL)


def alter(name: str, *steps: Any) -> Any:
    return methods.AlterTable(name=name, steps=tuple(map(step_to_plain, steps)), call=CALL)


def view(name: str, owner: str = "ann", replace: bool = False) -> Any:
    plain = view_to_plain(View(name, "SELECT 1", ("x",), owner))
    return methods.CreateView(view=plain, replace=replace, call=CALL)


def access(*steps: AccessStep) -> Any:
    return user_methods.ChangeAccess(steps=tuple(map(access_step_to_plain, steps)), call=CALL)


def drop(name: str, *views: str) -> Any:
    return methods.DropTable(name=name, views=views, call=CALL)


def together(*steps: catalog_methods.CatalogStep) -> Any:
    return catalog_methods.ChangeCatalog(steps=steps, call=CALL)


def replaced(before: str, after: str = "", owner: str = "ann") -> catalog_methods.CatalogStep:
    plain = view_to_plain(View(before, "SELECT 1", ("x",), "ann"))
    return catalog_methods.ReplaceViewStep(plain, plain | {"name": after or before, "owner": owner})


def schema_owner(name: str, owner: str) -> catalog_methods.CatalogStep:
    before, after = namespace_to_plain(Namespace(name, "ann")), namespace_to_plain(Namespace(name, owner))
    return catalog_methods.ReplaceNamespaceStep(before, after)


def renamed(name: str, *more: catalog_methods.CatalogStep) -> Any:
    return together(catalog_methods.AlterTableStep(name, (step_to_plain(RenameTable("n")),)), *more)


CREATE = AddGrant(Grant(schema_key("public"), Right.CREATE, "ann", STORE_ROLE))
ALLOWED = [
    (create(), [CREATE]),
    (create(owner="team"), [CREATE]),
    (create(namespace="mine"), []),
    (alter("hers", SetComment(None, "x")), []),
    (alter("common", SetComment(None, "x")), []),
    (alter("hers", SetOwner("team")), []),
    (alter("hers", RenameTable("n")), [CREATE]),
    (drop("hers", "w"), []),
    (view("n"), [CREATE]),
    (view("w", replace=True), []),
    (methods.DropViews(names=("w",), call=CALL), []),
    (RenameView(name="w", new_name="n", namespace="public", call=CALL), [CREATE]),
    (RenameView(name="w", new_name="mine.w", namespace="mine", call=CALL), []),
    (namespace_methods.DropNamespace(name="mine", tables=(), views=("w",), call=CALL), []),
    (renamed("hers", replaced("w")), [CREATE]),
    (together(replaced("w", owner="team")), []),
    (together(schema_owner("mine", "team")), []),
    (access(AddGrant(Grant("t000001", Right.SELECT, "ben", "ann"))), []),
    (access(RemoveGrant("t000001", Right.SELECT, "ben", "ann")), []),
    (access(AddGrant(Grant("t000003", Right.SELECT, "ben", "team"))), []),
    (access(AddMember(Membership("team", "ben", "ann"))), [AddMember(Membership("team", "ann", STORE_ROLE, True))]),
    (access(AlterRole("ann", (("verifier", "x"),))), []),
]
REFUSED = [
    (create(), []),
    (create(owner="ben"), [CREATE]),
    (create(owner=""), [CREATE]),
    (create(owner=STORE_ROLE), [CREATE]),
    (create(namespace="public"), []),
    (alter("theirs", SetComment(None, "x")), []),
    (alter("hers", SetOwner("ben")), []),
    (alter("hers", SetOwner("")), []),
    (alter("hers", RenameTable("n")), []),
    (drop("theirs"), []),
    (drop("hers", "other"), []),
    (view("n"), []),
    (view("n", owner=""), [CREATE]),
    (view("other", replace=True), [CREATE]),
    (view("hers", owner="ben", replace=True), [CREATE]),
    (methods.DropViews(names=("w", "other"), call=CALL), []),
    (RenameView(name="other", new_name="n", namespace="public", call=CALL), [CREATE]),
    (RenameView(name="w", new_name="n", namespace="public", call=CALL), []),
    (namespace_methods.CreateNamespace(namespace=namespace_to_plain(Namespace("n", "ann")), call=CALL), [CREATE]),
    (namespace_methods.DropNamespace(name="mine", tables=("theirs",), views=(), call=CALL), []),
    (namespace_methods.DropNamespace(name="public", tables=(), views=(), call=CALL), []),
    (renamed("theirs"), [CREATE]),
    (renamed("hers"), []),
    (renamed("hers", replaced("other")), [CREATE]),  # the text of a view runs with the rights of its owner
    (together(replaced("w", "other")), []),
    (together(replaced("w", owner="ben")), []),
    (together(schema_owner("mine", "ben")), []),
    (together(schema_owner("public", "ann")), []),
    (together(catalog_methods.RenameViewStep("other", "n", "public")), [CREATE]),
    (together(catalog_methods.CreateNamespaceStep(namespace_to_plain(Namespace("n", "ann")))), []),
    (together(catalog_methods.MoveGrantsStep("schema:public", "schema:mine")), []),
    (together(catalog_methods.DropNamespaceStep("mine")), []),
    (access(AddGrant(Grant("t000002", Right.SELECT, "ann", STORE_ROLE))), []),
    (access(AddGrant(Grant("t000002", Right.SELECT, "ann", "ben"))), []),
    (access(RemoveGrant("t000002", Right.SELECT, "ben", STORE_ROLE)), []),
    (access(AddMember(Membership("team", "ben", "ann"))), []),
    (access(AddMember(Membership(STORE_ROLE, "ann", "ann", True))), []),
    (
        access(AddMember(Membership("team", "ben", STORE_ROLE))),
        [AddMember(Membership("team", "ann", STORE_ROLE, True))],
    ),
    (access(RemoveMember("team", "ann")), []),
    (access(CreateRole(Role("eve", is_superuser=True))), []),
    (access(DropRole("ben")), []),
    (access(AlterRole("ben", (("verifier", "x"),))), []),
    (access(AlterRole("ann", (("is_superuser", True),))), []),
    (access(AlterRole("ann", (("verifier", "x"), ("is_superuser", True)))), []),
    (access(AlterRole("ann", (("verifier", "x"),)), CreateRole(Role("eve"))), []),
]


@pytest.mark.parametrize(("request_", "steps"), ALLOWED)
def test_a_user_may_change_what_is_its_own(request_: Any, steps: list[AccessStep]) -> None:
    made = catalog(*steps)
    check_catalog_change(Holder(made.access, "ann"), made, request_)


@pytest.mark.parametrize(("request_", "steps"), REFUSED)
def test_a_user_may_change_nothing_else(request_: Any, steps: list[AccessStep]) -> None:
    made = catalog(*steps)
    with pytest.raises(PermissionDenied):
        check_catalog_change(Holder(made.access, "ann"), made, request_)
    check_catalog_change(None, made, request_)
    superuser = made.with_access([AlterRole("ann", (("is_superuser", True),))])
    check_catalog_change(Holder(superuser.access, "ann"), superuser, request_)


# ---- steps as plain data ---------------------------------------------------------------------------------------------

NAMES = st.text(max_size=5)
STEPS: st.SearchStrategy[Any] = st.one_of(
    st.builds(
        CreateRole, st.builds(Role, NAMES, st.booleans(), st.booleans(), NAMES, st.none() | st.integers(0, 2**60))
    ),
    st.builds(AlterRole, NAMES, st.just((("can_login", True), ("valid_until", None)))),
    st.builds(DropRole, NAMES),
    st.builds(AddMember, st.builds(Membership, NAMES, NAMES, NAMES, st.booleans())),
    st.builds(RemoveMember, NAMES, NAMES, st.booleans()),
    st.builds(AddGrant, st.builds(Grant, NAMES, st.sampled_from(Right), NAMES, NAMES, st.booleans())),
    st.builds(RemoveGrant, NAMES, st.sampled_from(Right), NAMES, NAMES, st.booleans(), st.booleans()),
)


@given(STEPS)
def test_steps_come_back_from_the_wire(step: AccessStep) -> None:
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(access_step_to_plain(step)))
    assert access_step_from_plain(sent) == step


@pytest.mark.parametrize(
    "plain",
    [
        {},
        {"step": "forget_objects", "keys": ["t000001"]},
        {"step": "owner_changed", "key": "t000001", "before": "", "after": "ann"},
        {"step": "drop_role"},
        {"step": "drop_role", "name": 7},
        {"step": "alter_role", "name": "ann", "changes": [["number", 10]]},
        {"step": "alter_role", "name": "ann", "changes": [["is_superuser", "yes"]]},
        {"step": "alter_role", "name": "ann", "changes": [["__class__", True]]},
        {"step": "add_grant", "grant": {"key": "t", "right": "?", "grantee": "", "grantor": ""}},
        {"step": "create_role", "role": {"name": "ann", "can_login": 1}},
    ],
)
def test_malformed_steps_are_refused(plain: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match="malformed change of users"):
        access_step_from_plain(plain)


def test_what_the_store_adds_itself_has_no_place_on_the_wire() -> None:
    with pytest.raises(KeyError):
        access_step_to_plain(ForgetObjects(("t000001",)))


# ---- rows ------------------------------------------------------------------------------------------------------------


def write(*ops: Op) -> methods.Write:
    codes: Any = int(ops[0]) if len(ops) == 1 else np.array(ops, np.uint8).tobytes()
    return methods.Write(tablet_id="t", schema_version=0, rows=b"", ops=codes, call=CALL)


def prepare(part: methods.Write) -> Any:
    return transaction_methods.PrepareWrite(
        transaction="x", timestamp=1, part=part, decider_table="t", decider_tablet="t"
    )


def stage(part: methods.Write) -> Any:
    return transaction_methods.StageWrite(transaction="x", number=0, part=part, decider_table="t", decider_tablet="t")


def row(op: Op) -> methods.WriteRow:
    return methods.WriteRow(tablet_id="t", schema_version=0, op=int(op), row={}, call=CALL)


def read(*columns: str) -> methods.ReadRow:
    return methods.ReadRow(tablet_id="t", schema_version=0, key=(1,), columns=columns)


def scan(*columns: str, predicates: tuple[Any, ...] = ()) -> methods.ScanTablet:
    spec = spec_to_plain(ScanSpec(columns, predicates))
    return methods.ScanTablet(tablet_id="t", schema_version=0, spec=spec, scanner="s")


def work(name: str) -> methods.WorkOnTablet:
    return methods.WorkOnTablet(tablet_id="t", work=name)


I, U, D, S, T = Right.INSERT, Right.UPDATE, Right.DELETE, Right.SELECT, Right.TRUNCATE  # noqa: E741
ROWS: list[tuple[Any, list[set[Right]]]] = [
    (write(Op.INSERT), [{I}]),
    (write(Op.INSERT_IGNORE), [{I}]),
    (write(Op.UPSERT), [{I, U}]),
    (write(Op.UPDATE), [{U}]),
    (write(Op.DELETE), [{D}, {T}]),
    (write(Op.INSERT, Op.DELETE), [{I, D}, {I, T}]),
    (row(Op.UPSERT_IGNORE), [{I, U}]),
    (row(Op.UPDATE_IGNORE), [{U}]),
    (row(Op.DELETE_IGNORE), [{D}, {T}]),
    (prepare(write(Op.UPDATE)), [{U}]),
    (stage(write(Op.INSERT)), [{I}]),
    (read("k", "v"), [{S}]),
    (read("k"), [{S}, {I}, {U}, {D}, {T}]),
    (scan("v"), [{S}]),
    (scan("k"), [{S}, {I}, {U}, {D}, {T}]),
    (scan("k", predicates=(Range.equal("v", 1),)), [{S}]),
    (methods.StartScan(ticket=scan("k", "v")), [{S}]),
    (methods.DescribeTablets(tablet_ids=("t",)), [{S}, {I}, {U}, {D}, {T}]),
    (methods.KeySamples(tablet_id="t"), [{S}, {I}, {U}, {D}, {T}]),
    (transaction_methods.TakeNumbers(tablet_id="t", count=1), [{S}, {I}, {U}, {D}, {T}]),
    (work("flush"), [{S}, {I}, {U}, {D}, {T}]),
    (work("analyze"), []),
    (work("compact"), []),
]


@pytest.mark.parametrize(("request_", "enough"), ROWS)
def test_requests_for_rows_need_their_rights(request_: Any, enough: list[set[Right]]) -> None:
    made = catalog()
    table = made.entries["theirs"].table
    rights = TableRights(lambda tablet_id: table)
    everything = {S, I, U, D, T}
    for some in [set(), *({right} for right in everything), *enough, *(everything - {right} for right in everything)]:
        granted = made.with_access([AddGrant(Grant(table.id, right, "ann", STORE_ROLE)) for right in some])
        holder = Holder(granted.access, "ann")
        if any(needed <= some for needed in enough):
            rights.check(holder, request_)
        else:
            with pytest.raises(PermissionDenied):
                rights.check(holder, request_)
    owned = TableRights(lambda tablet_id: replace(table, owner="ann"))
    owned.check(Holder(made.access, "ann"), request_)


def test_an_unknown_operation_is_refused() -> None:
    made = catalog()
    rights = TableRights(lambda tablet_id: made.entries["theirs"].table)
    with pytest.raises(ProtocolError, match="no write op has the number 99"):
        rights.check(Holder(made.access, "ann"), replace_op(99))


def replace_op(number: int) -> methods.WriteRow:
    return methods.WriteRow(tablet_id="t", schema_version=0, op=number, row={}, call=CALL)


def test_views_are_no_tables_of_tablets() -> None:
    made = catalog(AddGrant(Grant(view_key("w"), S, "ben", "ann")))
    rights = TableRights(lambda tablet_id: made.entries["hers"].table)
    with pytest.raises(PermissionDenied, match="through a gateway only"):
        rights.check(Holder(made.access, "ben"), scan("v"))
