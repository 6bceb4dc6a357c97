"""Grants and memberships against a small model: a set of edges, from which rights are found by searching paths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import DependentObjects, DuplicateRole, InvalidGrant, LastUser, UnknownRole
from nyala.model.access.rights import Right, Secured
from nyala.model.access.roles import PUBLIC, STORE_ROLE, Access, Grant, Membership, Role
from nyala.model.access.steps import (
    AddGrant,
    AddMember,
    AlterRole,
    CreateRole,
    DropRole,
    ForgetObjects,
    ObjectRenamed,
    OwnerChanged,
    PermitNoUsers,
    RemoveGrant,
    RemoveMember,
    apply_access_steps,
)
from nyala.model.codec.access import access_from_dict, access_to_dict

NAMES = ("a", "b", "c", "d")
OBJECTS = {
    "t1": Secured("table", "one", "t1", "a"),
    "t2": Secured("table", "two", "t2", ""),
}
RIGHTS = (Right.SELECT, Right.INSERT)
names = st.sampled_from(NAMES)
grants = st.builds(
    Grant, st.sampled_from(sorted(OBJECTS)), st.sampled_from(RIGHTS), st.sampled_from((*NAMES, PUBLIC)),
    st.sampled_from((*NAMES, STORE_ROLE)), st.booleans(),
)  # fmt: skip
steps = st.one_of(
    st.builds(AddMember, st.builds(Membership, names, names, st.just(STORE_ROLE), st.booleans())),
    st.builds(RemoveMember, names, names, st.booleans()),
    *[st.builds(AddGrant, grants)] * 3,
    st.builds(
        lambda grant, only, cascade: RemoveGrant(
            grant.key, grant.right, grant.grantee, grant.grantor, only_option=only, cascade=cascade
        ),
        grants, st.booleans(), st.booleans(),
    ),
    st.builds(lambda key, name: OwnerChanged(key, "", name), st.just("t2"), names),
    st.builds(lambda name, is_super: AlterRole(name, (("is_superuser", is_super),)), names, st.booleans()),
    st.builds(ForgetObjects, st.just(("t1",))),
)  # fmt: skip


class Model:
    """Roles as sets, grants as edges; a step that is refused changes nothing."""

    def __init__(self) -> None:
        self.members: set[tuple[str, str]] = set()
        self.edges: dict[tuple[str, Right, str, str], bool] = {}
        self.owners = {key: found.owner or STORE_ROLE for key, found in OBJECTS.items()}
        self.supers = {STORE_ROLE}

    def reaches(self, member: str, role: str) -> bool:
        return member == role or any(self.reaches(up, role) for up, down in self.members if down == member)

    def allows(self, name: str, key: str, right: Right) -> bool:
        if name in self.supers or self.reaches(name, self.owners[key]):
            return True
        return any(
            (edge_key, edge_right) == (key, right) and (grantee == PUBLIC or self.reaches(name, grantee))
            for edge_key, edge_right, grantee, _ in self.edges
        )

    def supported(self, key: str, right: Right, role: str, seen: frozenset[str] = frozenset()) -> bool:
        """True if a path of grant options leads from the owner to a role."""
        if role == self.owners[key]:
            return True
        return role not in seen and any(
            option and (k, r, grantee) == (key, right, role) and self.supported(key, right, grantor, seen | {role})
            for (k, r, grantee, grantor), option in self.edges.items()
        )

    def prune(self) -> int:
        lost = [edge for edge in self.edges if not self.supported(edge[0], edge[1], edge[3])]
        for edge in lost:
            del self.edges[edge]
        return len(lost)

    def apply(self, step: object) -> bool:
        """True if the step is possible."""
        match step:
            case AddMember(Membership(role, member, _, _)):
                if self.reaches(role, member):
                    return False
                self.members.add((role, member))
            case RemoveMember(role, member, only_admin):
                if not only_admin:
                    self.members.discard((role, member))
            case AddGrant(Grant(key, right, grantee, grantor, option)):
                if not self.supported(key, right, grantor):
                    return False
                if grantee != self.owners[key]:
                    edge = key, right, grantee, grantor
                    self.edges[edge] = option or self.edges.get(edge, False)
            case RemoveGrant(key, right, grantee, grantor, only_option, cascade):
                before = dict(self.edges)
                edge = key, right, grantee, grantor
                if edge in self.edges:
                    if only_option:
                        self.edges[edge] = False
                    else:
                        del self.edges[edge]
                if self.prune() and not cascade:
                    self.edges = before
                    return False
            case OwnerChanged(key, _, after):
                moved: dict[tuple[str, Right, str, str], bool] = {}
                for (k, right, grantee, grantor), option in self.edges.items():
                    if k == key and grantee == after:
                        continue
                    edge = k, right, grantee, after if k == key and grantor == self.owners[key] else grantor
                    moved[edge] = option or moved.get(edge, False)
                self.edges, self.owners[key] = moved, after
                self.prune()
            case AlterRole(name, ((_, is_super),)):
                (self.supers.add if is_super else self.supers.discard)(name)
            case ForgetObjects(keys):
                self.edges = {edge: option for edge, option in self.edges.items() if edge[0] not in keys}
        return True


@settings(max_examples=examples(400))
@given(st.lists(steps, max_size=25))
def test_rights_follow_from_grants_as_in_the_model(changes: list[object]) -> None:
    access = apply_access_steps(Access(), [CreateRole(Role(name)) for name in NAMES], OBJECTS)
    model, objects = Model(), dict(OBJECTS)
    for step in changes:
        if isinstance(step, OwnerChanged):
            step = replace(step, before=objects[step.key].owner)
        try:
            access = apply_access_steps(access, [step], objects)  # type: ignore[list-item]
            assert model.apply(step), step
        except (DependentObjects, InvalidGrant):
            assert not model.apply(step), step
        if isinstance(step, OwnerChanged):
            objects[step.key] = replace(objects[step.key], owner=step.after)
        for name in (*NAMES, STORE_ROLE):
            for key, object_ in objects.items():
                for right in RIGHTS:
                    assert access.allows(name, right, object_) == model.allows(name, key, right), (step, name, key)
    assert access_from_dict(access_to_dict(access)) == access


def test_a_role_that_owns_or_has_grants_stays() -> None:
    access = apply_access_steps(Access(), [CreateRole(Role("a")), CreateRole(Role("b"))], OBJECTS)
    with pytest.raises(DependentObjects, match="it owns table one"):
        apply_access_steps(access, [DropRole("a")], OBJECTS)
    access = apply_access_steps(access, [AddGrant(Grant("t1", Right.SELECT, "b", "a"))], OBJECTS)
    with pytest.raises(DependentObjects, match="it has grants on table one; REVOKE them first"):
        apply_access_steps(access, [DropRole("b")], OBJECTS)
    gone = apply_access_steps(access, [ForgetObjects(("t1",)), DropRole("b")], OBJECTS)
    assert [role.name for role in gone.all_roles()] == ["a", STORE_ROLE]


def test_names_are_checked_and_numbers_are_not_used_again() -> None:
    access = apply_access_steps(Access(), [CreateRole(Role("alice"))], {})
    with pytest.raises(DuplicateRole, match="role alice exists already"):
        apply_access_steps(access, [CreateRole(Role("alice"))], {})
    with pytest.raises(DuplicateRole, match="role nyala exists already"):
        apply_access_steps(access, [CreateRole(Role(STORE_ROLE))], {})
    with pytest.raises(UnknownRole, match="role alic does not exist; did you mean alice"):
        apply_access_steps(access, [DropRole("alic")], {})
    first = access.roles["alice"].number
    again = apply_access_steps(access, [DropRole("alice"), CreateRole(Role("alice"))], {})
    assert again.roles["alice"].number > first


def test_a_store_has_users_when_a_role_can_log_in() -> None:
    access = apply_access_steps(Access(), [CreateRole(Role("group"))], {})
    assert not access.has_users and not access.is_first
    assert apply_access_steps(access, [CreateRole(Role("user", can_login=True))], {}).has_users


def test_grants_follow_a_new_key_and_leave_others_alone() -> None:
    access = apply_access_steps(Access(), [CreateRole(Role("b")), CreateRole(Role("a"))], OBJECTS)
    granted = [
        AddGrant(Grant("t1", Right.SELECT, "b", "a", True)),
        AddGrant(Grant("t2", Right.SELECT, "b", STORE_ROLE)),
    ]
    access = apply_access_steps(access, granted, OBJECTS)
    moved = apply_access_steps(access, [ObjectRenamed(OBJECTS["t1"], "t3")], OBJECTS)
    of_tables = [grant for grant in moved.grants if grant.key.startswith("t")]
    assert [(grant.key, grant.grantee, grant.has_option) for grant in of_tables] == [
        ("t3", "b", True),
        ("t2", "b", False),
    ]
    assert apply_access_steps(moved, [ObjectRenamed(OBJECTS["t1"], "t4")], OBJECTS) is moved


# ---- the last user ---------------------------------------------------------------------------------------------------

ADMIN = Role("adm", can_login=True, is_superuser=True, verifier="v")
BOSS = Role("boss", is_superuser=True)


@pytest.mark.parametrize(
    ("roles", "steps", "why"),
    [
        ([Role("ann", can_login=True)], [DropRole("ann")], "user ann is the last that can log in"),
        ([Role("ann", can_login=True)], [AlterRole("ann", (("can_login", False),))], "is the last that can log in"),
        ([ADMIN, Role("ann", can_login=True)], [DropRole("adm")], "user adm is the last superuser with a password"),
        ([ADMIN], [AlterRole("adm", (("is_superuser", False),))], "the last superuser"),
        ([ADMIN], [AlterRole("adm", (("verifier", ""),))], "the last superuser"),
        ([ADMIN, Role("ann", can_login=True)], [AlterRole("adm", (("can_login", False),))], "the last superuser"),
        (
            [BOSS, Role("sue", can_login=True, verifier="v"), AddMember(Membership("boss", "sue", STORE_ROLE))],
            [RemoveMember("boss", "sue")],
            "user sue is the last superuser",
        ),
    ],
)
def test_the_last_user_and_the_last_superuser_stay(roles: list[Any], steps: list[Any], why: str) -> None:
    made = [CreateRole(role) if isinstance(role, Role) else role for role in roles]
    access = apply_access_steps(Access(), made, {})
    with pytest.raises(LastUser, match=why):
        apply_access_steps(access, steps, {})
    assert apply_access_steps(access, [PermitNoUsers(), *steps], {}) != access
    another = apply_access_steps(access, [CreateRole(replace(ADMIN, name="other"))], {})
    assert apply_access_steps(another, steps, {}).administrators == {"other"}
    own = apply_access_steps(access, [AlterRole(STORE_ROLE, (("verifier", "v"),))], {})
    assert apply_access_steps(own, steps, {}).administrators == {STORE_ROLE}


def test_a_store_without_a_superusers_password_gets_and_loses_users_otherwise() -> None:
    access = apply_access_steps(Access(), [CreateRole(Role("ann", can_login=True)), CreateRole(Role("r"))], {})
    access = apply_access_steps(access, [DropRole("r"), CreateRole(Role("ben", can_login=True)), DropRole("ann")], {})
    assert access.has_users and not access.administrators
