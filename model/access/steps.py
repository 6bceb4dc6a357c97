"""Changes of an `Access`: each step is plain data, and is checked when it is applied.

A statement makes a tuple of steps, which take effect together or not at all (`Store.change_access`). The same steps can
be applied to another `Access` than that for which they were made: a transaction's COMMIT applies them to the latest.
That the user may make them is checked before, when the statement is bound; what is checked here are the invariants:
names exist, grantors hold what they grant, nothing refers to a role that is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from ...errors import DependentObjects, DuplicateRole, InvalidGrant, LastUser, UnknownRole, did_you_mean
from ..lazy_dataclass import dataclass
from .rights import Right, Secured
from .roles import PUBLIC, STORE_ROLE, Access, Grant, Membership, Role

Owners: TypeAlias = Mapping[str, Secured]
"""All objects by key, with their owners."""


@dataclass(frozen=True, slots=True)
class CreateRole:
    """A new role; its number is given to it."""

    role: Role


@dataclass(frozen=True, slots=True)
class AlterRole:
    """New values of attributes of a role, by their names in `Role`."""

    name: str
    changes: tuple[tuple[str, Any], ...]

    def __repr__(self) -> str:
        return f"AlterRole({self.name!r})"


@dataclass(frozen=True, slots=True)
class DropRole:
    """Removes a role, which must own nothing and have no grants."""

    name: str


@dataclass(frozen=True, slots=True)
class PermitNoUsers:
    """The steps may leave the store without users, so that it is open, or without a superuser with a password."""


@dataclass(frozen=True, slots=True)
class AddMember:
    """Makes a role a member of another; with `is_admin` with the right to do the same."""

    membership: Membership


@dataclass(frozen=True, slots=True)
class RemoveMember:
    """Ends a membership; with `only_admin` the right to make others members alone."""

    role: str
    member: str
    only_admin: bool = False


@dataclass(frozen=True, slots=True)
class AddGrant:
    """Grants a right."""

    grant: Grant


@dataclass(frozen=True, slots=True)
class RemoveGrant:
    """Revokes a right that `grantor` has granted; with `only_option` its grant option alone.

    Grants that depend on it are removed too with `cascade`; otherwise they are an error.
    """

    key: str
    right: Right
    grantee: str
    grantor: str
    only_option: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class OwnerChanged:
    """An object's owner becomes another role: what the old one has granted, the new one has granted."""

    key: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ForgetObjects:
    """Objects are dropped, and their grants with them: a view that is made later under the name has none."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ObjectRenamed:
    """An object whose key is its name, a view, gets another name: its grants follow it."""

    before: Secured
    key: str


AccessStep: TypeAlias = (
    CreateRole
    | AlterRole
    | DropRole
    | PermitNoUsers
    | AddMember
    | RemoveMember
    | AddGrant
    | RemoveGrant
    | OwnerChanged
    | ForgetObjects
    | ObjectRenamed
)


def apply_access_steps(access: Access, steps: Iterable[AccessStep], objects: Owners) -> Access:
    """The access after all steps, in their order.

    Parameters
    ----------
    access : Access
    steps : iterable of AccessStep
    objects : mapping of str to Secured
        All objects by key, as they are before the steps.

    Raises
    ------
    UnknownRole, DuplicateRole
        A role is missing, or is there already.
    InvalidGrant
        Memberships would form a circle.
    DependentObjects
        A role that is dropped owns objects or has grants; or other grants depend on one that is revoked.
    LastUser
        No user could log in any more, or no superuser with a password, and no step permits it.
    """
    before, steps = access, tuple(steps)
    for step in steps:
        access = _APPLY[type(step)](access, step, objects)
        if isinstance(step, OwnerChanged) and step.key in objects:
            objects = {**objects, step.key: replace(objects[step.key], owner=step.after)}
    if access is not before and PermitNoUsers() not in steps:
        _check_users_left(before, access)
    return access


def _check_users_left(before: Access, after: Access) -> None:
    """Raises `LastUser` if there are no users any more, or no administrators."""
    if before.has_users and not after.has_users:
        names = ", ".join(name for name, role in before.roles.items() if role.can_login)
        raise LastUser(
            f"user {names} is the last that can log in, and a store without users is open to all who reach it: create "
            "another one first (or give the store's own role a password, ALTER USER nyala PASSWORD '...'); DROP USER "
            "... FORCE opens the store"
        )
    if before.administrators and not after.administrators:
        raise LastUser(
            f"user {', '.join(sorted(before.administrators))} is the last superuser with a password: make another one "
            "first, or give the store's own role a password (ALTER USER nyala PASSWORD '...'); DROP USER ... FORCE "
            "drops it all the same"
        )


def without_objects(access: Access, keys: Iterable[str]) -> Access:
    """The access without the grants on objects that are dropped."""
    gone = set(keys)
    if not any(grant.key in gone for grant in access.grants):
        return access
    return replace(access, grants=tuple(grant for grant in access.grants if grant.key not in gone))


def _with_key(access: Access, before: str, after: str) -> Access:
    """The access with another key in the grants on an object."""
    if not any(grant.key == before for grant in access.grants):
        return access
    moved = (replace(grant, key=after) if grant.key == before else grant for grant in access.grants)
    return replace(access, grants=tuple(moved))


def check_role(access: Access, name: str) -> Role:
    """A role; `UnknownRole` with similar names if there is none."""
    found = access.role(name)
    if found is None:
        known = [role.name for role in access.all_roles()]
        raise UnknownRole(f"role {name} does not exist{did_you_mean(name, known)}")
    return found


# ---- roles -----------------------------------------------------------------------------------------------------------


def _create(access: Access, step: CreateRole, objects: Owners) -> Access:
    name = step.role.name
    if access.role(name) is not None:
        raise DuplicateRole(f"role {name} exists already")
    role = replace(step.role, number=access.next_number, logins_ended=0)
    return replace(access, roles={**access.roles, name: role}, next_number=access.next_number + 1)


def _alter(access: Access, step: AlterRole, objects: Owners) -> Access:
    role = check_role(access, step.name)
    altered = replace(role, **dict(step.changes))
    if _ends_logins(role, altered):
        altered = replace(altered, logins_ended=role.logins_ended + 1)
    return replace(access, roles={**access.roles, step.name: altered})


def _ends_logins(before: Role, after: Role) -> bool:
    """True if clients that logged in as `before` would have to prove something else, or could not log in at all."""
    ends_earlier = after.valid_until is not None and (before.valid_until or after.valid_until + 1) > after.valid_until
    return before.verifier != after.verifier or (before.can_login and not after.can_login) or ends_earlier


def _drop(access: Access, step: DropRole, objects: Owners) -> Access:
    name = step.name
    check_role(access, name)
    owned = sorted(f"{each.kind} {each.name}" for each in objects.values() if each.owner == name)
    if owned:
        raise DependentObjects(
            f"role {name} cannot be dropped: it owns {_few(owned)}; give them to another role first, ALTER TABLE ... "
            "OWNER TO, or drop them"
        )
    keys = {grant.key for grant in access.grants if name in (grant.grantee, grant.grantor)}
    granted = sorted(f"{objects[key].kind} {objects[key].name}" for key in keys if key in objects)
    if granted:
        raise DependentObjects(f"role {name} cannot be dropped: it has grants on {_few(granted)}; REVOKE them first")
    return replace(
        access,
        roles={other: role for other, role in access.roles.items() if other != name},
        memberships=tuple(each for each in access.memberships if name not in (each.role, each.member)),
        grants=tuple(
            grant for grant in access.grants if grant.key not in keys or name not in (grant.grantee, grant.grantor)
        ),
    )


def _few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _add_member(access: Access, step: AddMember, objects: Owners) -> Access:
    new = step.membership
    check_role(access, new.role)
    check_role(access, new.member)
    if new.member in access.roles_of(new.role):
        raise InvalidGrant(f"role {new.role} is a member of role {new.member}: memberships cannot form a circle")
    known = next((each for each in access.memberships if (each.role, each.member) == (new.role, new.member)), None)
    if known is not None:
        new = replace(known, is_admin=known.is_admin or new.is_admin)
    kept = tuple(each for each in access.memberships if each is not known)
    return replace(access, memberships=(*kept, new))


def _remove_member(access: Access, step: RemoveMember, objects: Owners) -> Access:
    kept = []
    for each in access.memberships:
        if (each.role, each.member) != (step.role, step.member):
            kept.append(each)
        elif step.only_admin:
            kept.append(replace(each, is_admin=False))
    return replace(access, memberships=tuple(kept))


# ---- grants ----------------------------------------------------------------------------------------------------------


def _add_grant(access: Access, step: AddGrant, objects: Owners) -> Access:
    new = step.grant
    check_role(access, new.grantor)
    if new.grantee != PUBLIC:
        check_role(access, new.grantee)
    if new.key not in objects:
        return access  # dropped since
    if not _holds_option(access.grants, new.grantor, new, objects):
        raise DependentObjects(f"role {new.grantor} has lost the right that it grants")
    if new.grantee == (objects[new.key].owner or STORE_ROLE):
        return access  # the owner has all rights
    known = next((grant for grant in access.grants if _same(grant, new)), None)
    if known is not None:
        new = replace(new, has_option=known.has_option or new.has_option)
    return replace(access, grants=(*(grant for grant in access.grants if grant is not known), new))


def _same(one: Grant, other: Grant) -> bool:
    return (one.key, one.right, one.grantee, one.grantor) == (other.key, other.right, other.grantee, other.grantor)


def _holds_option(grants: Iterable[Grant], role: str, of: Grant, objects: Owners) -> bool:
    if role == (objects[of.key].owner or STORE_ROLE):
        return True
    return any(
        grant.has_option and grant.grantee == role and grant.key == of.key and grant.right is of.right
        for grant in grants
    )


def _remove_grant(access: Access, step: RemoveGrant, objects: Owners) -> Access:
    if step.key not in objects:
        return access
    kept = []
    for grant in access.grants:
        if (grant.key, grant.right, grant.grantee, grant.grantor) != (step.key, step.right, step.grantee, step.grantor):
            kept.append(grant)
        elif step.only_option:
            kept.append(replace(grant, has_option=False))
    rooted = _rooted(tuple(kept), objects)
    if len(rooted) < len(kept) and not step.cascade:
        lost = next(grant for grant in kept if grant not in rooted)
        raise DependentObjects(
            f"dependent privileges exist: role {lost.grantor} has granted {lost.right.name} on "
            f"{objects[lost.key].name} to {lost.grantee or 'PUBLIC'}; REVOKE ... CASCADE revokes that too"
        )
    return replace(access, grants=rooted)


def _rooted(grants: tuple[Grant, ...], objects: Owners) -> tuple[Grant, ...]:
    """The grants that a chain of grant options connects with the owner of their object."""
    found: list[Grant] = [grant for grant in grants if grant.key not in objects]
    rest = [grant for grant in grants if grant.key in objects]
    while True:
        reached = [grant for grant in rest if _holds_option(found, grant.grantor, grant, objects)]
        if not reached:
            return tuple(grant for grant in grants if grant in found)
        found += reached
        rest = [grant for grant in rest if grant not in reached]


def _owner_changed(access: Access, step: OwnerChanged, objects: Owners) -> Access:
    if step.key not in objects:
        return access
    before, after = step.before or STORE_ROLE, step.after or STORE_ROLE
    check_role(access, after)
    grants: dict[tuple[str, Right, str, str], Grant] = {}
    for grant in access.grants:
        if grant.key == step.key and grant.grantor == before:
            grant = replace(grant, grantor=after)
        if grant.key == step.key and grant.grantee == after:
            continue  # the owner has all rights
        place = (grant.key, grant.right, grant.grantee, grant.grantor)
        known = grants.get(place)
        grants[place] = grant if known is None else replace(grant, has_option=grant.has_option or known.has_option)
    owned = {**objects, step.key: replace(objects[step.key], owner=step.after)}
    return replace(access, grants=_rooted(tuple(grants.values()), owned))


_APPLY: Final[dict[type, Callable[[Access, Any, Owners], Access]]] = {
    CreateRole: _create,
    AlterRole: _alter,
    DropRole: _drop,
    PermitNoUsers: lambda access, step, objects: access,
    AddMember: _add_member,
    RemoveMember: _remove_member,
    AddGrant: _add_grant,
    RemoveGrant: _remove_grant,
    OwnerChanged: _owner_changed,
    ForgetObjects: lambda access, step, objects: without_objects(access, step.keys),
    ObjectRenamed: lambda access, step, objects: _with_key(access, step.before.key, step.key),
}
