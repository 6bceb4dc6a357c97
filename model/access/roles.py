"""All roles, memberships and grants of a store, and the questions that they decide.

A user is a role that can log in. The role `nyala` is always there: a superuser, whom the process that opens a directory
acts as, and who owns what was made without a user. Members have the rights of their roles, also indirectly; PUBLIC, as
a grantee the empty name, means all roles.

    owner of an object, or a superuser ── grants ──► role ── WITH GRANT OPTION ──► role ...

Each grant names its grantor, who is the owner or has the right with the grant option: grants of an object are a graph
whose root is the owner. A grant whose grantor has lost the option is removed with it (`steps`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from functools import lru_cache
from typing import Final

from ..lazy_dataclass import dataclass
from .rights import DEFAULT_SCHEMA, Right, Secured, schema_key

STORE_ROLE: Final = "nyala"
"""The superuser that every store has."""
PUBLIC: Final = ""
"""All roles, as a grantee."""
STORE_ROLE_NUMBER: Final = 10
FIRST_ROLE_NUMBER: Final = 16_384
"""Of the roles that are made; PostgreSQL's own have smaller ones."""


@dataclass(frozen=True, slots=True)
class Role:
    """A role.

    Parameters
    ----------
    name : str
    can_login : bool
    is_superuser : bool
        No right is checked.
    verifier : str
        Of the password, as `passwords.verifier_text` writes it; empty: none, so the role cannot log in from outside.
    valid_until : int, optional
        Microseconds since 1970 after which the password is not accepted.
    number : int
        Its oid in the catalogs, and no other role's ever.
    logins_ended : int
        How often all of its logins were ended: by another password, an earlier end of its validity, or NOLOGIN. Tokens
        of before are not accepted any more.
    """

    name: str
    can_login: bool = False
    is_superuser: bool = False
    verifier: str = ""
    valid_until: int | None = None
    number: int = 0
    logins_ended: int = 0

    def __repr__(self) -> str:
        return f"Role({self.name!r})"


@dataclass(frozen=True, slots=True)
class Membership:
    """`member` has the rights of `role`; with `is_admin` it may make others members."""

    role: str
    member: str
    grantor: str
    is_admin: bool = False


@dataclass(frozen=True, slots=True)
class Grant:
    """One right on one object, by its key, for one grantee; with `has_option` the grantee may grant it further."""

    key: str
    right: Right
    grantee: str
    grantor: str
    has_option: bool = False


_STORE_ROLE: Final = Role(STORE_ROLE, can_login=True, is_superuser=True, number=STORE_ROLE_NUMBER)
_FIRST_GRANTS: Final = (Grant(schema_key(DEFAULT_SCHEMA), Right.USAGE, PUBLIC, STORE_ROLE),)


@dataclass(frozen=True, slots=True)
class Access:
    """Immutable; see the module's page.

    Parameters
    ----------
    roles : mapping of str to Role
        By name; `STORE_ROLE` is among them only if it was altered.
    memberships : tuple of Membership
    grants : tuple of Grant
    next_number : int
        For the next role.
    """

    roles: Mapping[str, Role] = field(default_factory=dict)
    memberships: tuple[Membership, ...] = ()
    grants: tuple[Grant, ...] = _FIRST_GRANTS
    next_number: int = FIRST_ROLE_NUMBER

    @property
    def is_first(self) -> bool:
        """True if nothing was ever changed: what a new store has."""
        return not self.roles and not self.memberships and self.grants == _FIRST_GRANTS

    @property
    def has_users(self) -> bool:
        """True if a role can log in: then servers demand authentication."""
        return bool(self.roles) and any(role.can_login for role in self.roles.values())

    @property
    def administrators(self) -> frozenset[str]:
        """The users who can log in with a password and are superusers, by themselves or as a member."""
        return frozenset(
            name
            for name, role in self.roles.items()
            if role.can_login and role.verifier and any(map(self.is_superuser, self.roles_of(name)))
        )

    # ---- roles -------------------------------------------------------------------------------------------------------

    def role(self, name: str) -> Role | None:
        """A role; None if there is none of that name."""
        found = self.roles.get(name)
        return _STORE_ROLE if found is None and name == STORE_ROLE else found

    def all_roles(self) -> list[Role]:
        """All roles by name, ascending."""
        return [known for name in sorted({STORE_ROLE, *self.roles}) if (known := self.role(name)) is not None]

    def is_superuser(self, name: str) -> bool:
        """True if no right of a role is checked."""
        found = self.role(name)
        return found is not None and found.is_superuser

    def roles_of(self, name: str) -> frozenset[str]:
        """A role and all roles of which it is a member, also indirectly."""
        return _roles_of(self.memberships, name)

    def is_member(self, member: str, role: str) -> bool:
        """True if `member` is `role`, has its rights, or is a superuser."""
        return self.is_superuser(member) or role in self.roles_of(member)

    def may_add_members(self, name: str, role: str) -> bool:
        """True if a role may make others members of `role`."""
        if self.is_superuser(name):
            return True
        own = self.roles_of(name)
        return any(each.is_admin and each.role == role and each.member in own for each in self.memberships)

    # ---- rights ------------------------------------------------------------------------------------------------------

    def owns(self, name: str, object_: Secured) -> bool:
        """True if a role is the object's owner, a member of the owner, or a superuser."""
        return self.is_member(name, object_.owner or STORE_ROLE)

    def allows(self, name: str, right: Right, object_: Secured) -> bool:
        """True if a role has a right on an object."""
        if self.owns(name, object_):
            return True
        own = self.roles_of(name)
        return any(
            grant.key == object_.key and grant.right is right and (grant.grantee in own or grant.grantee == PUBLIC)
            for grant in self.grants
        )

    def grantor(self, name: str, right: Right, object_: Secured) -> str | None:
        """The role on whose behalf a role grants or revokes a right: the owner, or one with the grant option that it
        is or is a member of. None if it may do neither."""
        if self.owns(name, object_):
            return object_.owner or STORE_ROLE
        own = self.roles_of(name)
        found = sorted(
            grant.grantee
            for grant in self.grants
            if grant.has_option and grant.key == object_.key and grant.right is right and grant.grantee in own
        )
        return name if name in found else found[0] if found else None

    def grants_on(self, keys: Collection[str]) -> Iterator[Grant]:
        """The grants on objects."""
        return (grant for grant in self.grants if grant.key in keys)


@lru_cache(1024)
def _roles_of(memberships: tuple[Membership, ...], name: str) -> frozenset[str]:
    found, waiting = {name}, [name]
    while waiting:
        member = waiting.pop()
        for each in memberships:
            if each.member == member and each.role not in found:
                found.add(each.role)
                waiting.append(each.role)
    return frozenset(found)
