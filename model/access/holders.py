"""A user with the rights of all roles that it may set, which servers check, and the rights that writes need.

A session acts as one role (`sql.rights`). A server sees only the user, who could act as any role of which it is a
member: a request is allowed if one of these roles may make it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...errors import PermissionDenied, quoted_name
from ..lazy_dataclass import dataclass
from ..store import Op
from .rights import Right, Secured
from .roles import Access

RIGHTS_OF_OPS: Final[Mapping[Op, tuple[Right, ...]]] = {
    Op.INSERT: (Right.INSERT,),
    Op.INSERT_IGNORE: (Right.INSERT,),
    Op.UPSERT: (Right.INSERT, Right.UPDATE),
    Op.UPSERT_IGNORE: (Right.INSERT, Right.UPDATE),
    Op.UPDATE: (Right.UPDATE,),
    Op.UPDATE_IGNORE: (Right.UPDATE,),
    Op.DELETE: (Right.DELETE,),
    Op.DELETE_IGNORE: (Right.DELETE,),
}
"""The rights that a write needs, by its operation."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A user with its rights. All methods that begin with `require` raise `PermissionDenied`."""

    access: Access
    user: str

    @property
    def is_superuser(self) -> bool:
        """True if a role of the user is a superuser."""
        return any(self.access.is_superuser(role) for role in self.access.roles_of(self.user))

    def is_member(self, role: str) -> bool:
        """True if the user may act as a role."""
        return self.is_superuser or role in self.access.roles_of(self.user)

    def allows(self, right: Right, object_: Secured) -> bool:
        """True if the user has a right on an object."""
        return self.is_superuser or self.access.allows(self.user, right, object_)

    def require(self, right: Right, object_: Secured) -> None:
        """Checks a right on an object."""
        self.require_one_of((right,), object_)

    def require_one_of(self, rights: tuple[Right, ...], object_: Secured) -> None:
        """Checks that the user has at least one of these rights."""
        if not any(self.allows(right, object_) for right in rights):
            names, kind = " or ".join(right.name for right in rights), "SCHEMA " if object_.kind == "schema" else ""
            raise PermissionDenied(
                f"permission denied for {object_.kind} {object_.name}: user {self.user} needs {names} "
                f"(GRANT {rights[0].name} ON {kind}{object_.name} TO {quoted_name(self.user)})"
            )

    def require_owner(self, object_: Secured, what: str) -> None:
        """Checks that the user may act as the owner of an object."""
        if not (self.is_superuser or self.access.owns(self.user, object_)):
            raise PermissionDenied(f"must be owner of {object_.kind} {object_.name}: {what} is not for {self.user}")

    def require_member(self, role: str) -> None:
        """Checks that the user may act as a role."""
        if not self.is_member(role):
            raise PermissionDenied(f"permission denied: user {self.user} is no member of role {role}")

    def require_superuser(self, what: str) -> None:
        """Checks that the user is a superuser."""
        if not self.is_superuser:
            raise PermissionDenied(f"permission denied: {what} is for superusers, and user {self.user} is none")
