"""Checks of rights while a statement is bound: the one place that decides what a role may do.

    FROM t ── Actor.require(SELECT, t) ──► PermissionDenied, or nothing

Each reference to a table or view is checked where the binder resolves its name, so every form of statement is. Inside
of a view, the actor is the view's owner. Plans are kept for one version of the catalog, which each change of users or
grants increases, and for one role: no plan outlives the rights that it was bound with.

A statement without an actor has all rights: the process has opened the store itself.
"""

from __future__ import annotations

from dataclasses import replace

from ..errors import PermissionDenied, quoted_name
from ..model.access.rights import Right, Secured, secured, secured_schema
from ..model.access.roles import STORE_ROLE, Access
from ..model.lazy_dataclass import dataclass
from ..model.namespaces import DEFAULT_NAMESPACE, local_name
from ..model.schema import Table, View


@dataclass(frozen=True, slots=True)
class Actor:
    """The role that a statement, or the text of a view, acts as."""

    access: Access
    role: str
    user: str
    """The user of the session, who may set each role of which it is a member."""

    @property
    def owner(self) -> str:
        """The owner of what the role creates, as tables and views have it: empty for the store's own role."""
        return "" if self.role == STORE_ROLE else self.role

    @property
    def is_superuser(self) -> bool:
        """True if all is allowed."""
        return self.access.is_superuser(self.role)

    @property
    def shown(self) -> str:
        """ "user u", or "role r" if it cannot log in."""
        found = self.access.role(self.role)
        return f"{'user' if found is not None and found.can_login else 'role'} {self.role}"

    def as_owner(self, view: View) -> Actor:
        """The actor of a view's text."""
        return replace(self, role=view.owner or STORE_ROLE)

    def allows(self, right: Right, object_: Secured) -> bool:
        """True if the role has a right on an object."""
        return self.access.allows(self.role, right, object_)

    def require(self, right: Right, object_: Table | View) -> None:
        """Raises `PermissionDenied`, with what would help, unless the role has a right on a table or view."""
        found = secured(object_)
        if not self.allows(right, found):
            raise self.denied(right, found, _written(object_))

    def require_in_schema(self, right: Right, schema: Secured | None = None) -> None:
        """`require` for a schema; None: the one that every store has."""
        found = schema or secured_schema()
        if not self.allows(right, found):
            raise self.denied(right, found)

    def denied(self, right: Right, object_: Secured, written: str | None = None) -> PermissionDenied:
        """The error for a right that is missing; `written` is the object's name in statements."""
        name, kind = written or quoted_name(object_.name), "SCHEMA " if object_.kind == "schema" else ""
        return PermissionDenied(
            f"permission denied for {object_.kind} {object_.name}: {self.shown} needs {right.name} "
            f"(GRANT {right.name} ON {kind}{name} TO {quoted_name(self.role)})"
        )

    def require_owner(self, object_: Table | View | Secured, what: str) -> None:
        """Raises `PermissionDenied` unless the role owns an object; `what` names the statement."""
        found = object_ if isinstance(object_, Secured) else secured(object_)
        if not self.access.owns(self.role, found):
            raise PermissionDenied(
                f"must be owner of {found.kind} {found.name}: {what} is for {found.owner or STORE_ROLE}, its members "
                f"and superusers, and not for {self.shown}"
            )

    def require_superuser(self, what: str) -> None:
        """Raises `PermissionDenied` unless the role is a superuser; `what` names the statement."""
        if not self.is_superuser:
            raise PermissionDenied(f"permission denied: {what} is for superusers, and {self.shown} is none")


def _written(object_: Table | View) -> str:
    name = quoted_name(local_name(object_.namespace, object_.name))
    return name if object_.namespace == DEFAULT_NAMESPACE else f"{quoted_name(object_.namespace)}.{name}"
