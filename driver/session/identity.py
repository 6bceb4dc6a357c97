"""The user and the current role of a session, from which the rights of its statements follow.

    Identity ── actor(catalog) ──► sql.rights.Actor, or None: all rights

| session | acts as |
|---|---|
| of the process that has opened the store | all rights; after SET ROLE the role |
| of a client who has proved to be a user | the user, or the role that it has set |
| of a client of a store without users | all rights, until there are users |
| the same, and it has made them itself | then the role `nyala`; any other session nothing |

Rights are those of now, also in a transaction: nothing is kept here but names.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol, TypeVar

from ...errors import PermissionDenied
from ...model.access.rights import Right, secured_schema
from ...model.access.roles import STORE_ROLE
from ...model.access.steps import check_role
from ...model.namespaces import TEMPORARY_NAMESPACE
from ...model.schema import Table, View
from ...model.store import Store
from ...sql.rights import Actor
from ...sql.session_facts import USER, SessionFacts, all_rights
from .plan_cache import PlanCache

T = TypeVar("T")
D = TypeVar("D", bound="Duplicated")


class Acting(Protocol):
    """A `session.Session`."""

    identity: Identity | None
    facts: SessionFacts
    plans: PlanCache

    @property
    def store(self) -> Store: ...

    def find_table(self, name: str) -> Table: ...


class Duplicated(Protocol):
    """A `driver.connection.Connection`."""

    @property
    def session(self) -> Any: ...

    def duplicate(self: T) -> T: ...


class Identity:
    """See the module's page.

    Parameters
    ----------
    user : str
        The session's user; any name if it is not authenticated.
    role : str, optional
        The current role; None: the user.
    is_authenticated : bool
        False for a client of a store that had no users when it connected.
    is_in_process : bool
        The session is of the process that has opened the store, and has set a role.
    """

    def __init__(self, user: str, role: str | None = None, is_authenticated: bool = True, is_in_process: bool = False):
        self.user = user
        self.role = role or user
        self._is_authenticated = is_authenticated
        self._is_in_process = is_in_process
        self._has_made_users = False

    @property
    def is_own(self) -> bool:
        """True for the store's own role in the process that has opened the store."""
        return self.user == STORE_ROLE and self._is_in_process

    def with_role(self, role: str | None) -> Identity:
        """The same user with another current role; None: its own."""
        changed = Identity(self.user, role, self._is_authenticated, self._is_in_process)
        changed._has_made_users = self._has_made_users
        return changed

    def note_change(self) -> None:
        """The session has changed users or grants: it goes on when there are users now."""
        self._has_made_users = True

    def actor(self, catalog: Any) -> Actor | None:
        """The actor of a statement on a catalog; None: all rights. Raises `PermissionDenied` if the user is gone."""
        access = catalog.access
        user, role = self.user, self.role
        if not self._is_authenticated:
            if not access.has_users and role == user:
                return None
            if access.has_users and not self._has_made_users:
                raise PermissionDenied("the store has users since this session began: connect again as one of them")
            user, role = STORE_ROLE, STORE_ROLE if role == user else role
        if access.role(user) is None:
            raise PermissionDenied(f"permission denied: user {user} has been dropped")
        if access.role(role) is None or not access.is_member(user, role):
            raise PermissionDenied(f"permission denied: user {user} is no member of role {role} any more; RESET ROLE")
        return Actor(access, role, user)


def act_as(session: Acting, identity: Identity | None) -> None:
    """From now on statements have the rights of a user; None: all rights. Plans made before are not used again."""
    session.identity = identity
    user, role = (USER, USER) if identity is None else (identity.user, identity.role)
    actor = all_rights if identity is None else identity.actor
    session.facts = replace(session.facts, user=role, session_user=user, actor=actor)
    session.plans = session.plans.renewed(guards=identity is not None)


def act_as_own_user(session: Acting) -> None:
    """Acts as the user that the store's client has logged in as, if it has."""
    user = getattr(session.store, "user", None)
    if user is not None:
        act_as(session, Identity(user))


def set_role(session: Acting, role: str | None) -> None:
    """Acts as another role; None: as the session's user."""
    identity = session.identity
    if identity is None:
        if role is not None:
            act_as(session, Identity(STORE_ROLE, role, is_in_process=True))
    elif identity.is_own and role is None:
        act_as(session, None)
    elif identity.role != (role or identity.user):
        act_as(session, identity.with_role(role))


def require(session: Acting, object_: Table | View, *rights: Right) -> None:
    """Raises `PermissionDenied` unless the session has these rights; for work without SQL."""
    actor = session.facts.actor(session.store)
    if actor is None:
        return
    if object_.namespace != TEMPORARY_NAMESPACE:
        owners = {namespace.name: namespace.owner for namespace in session.store.namespaces()}
        actor.require_in_schema(Right.USAGE, secured_schema(object_.namespace, owners.get(object_.namespace, "")))
    for right in rights:
        actor.require(right, object_)


def require_insert(session: Acting, table: Table) -> None:
    """`require` for a load."""
    require(session, table, Right.INSERT)


def insertable(session: Acting, name: str) -> Table:
    """The table of a name, into which the session may load; errors as of `Store.table` and `require`."""
    table = session.find_table(name)
    require_insert(session, table)
    return table


def as_user(connection: D, user: str, is_authenticated: bool = True) -> D:
    """A duplicate of a connection that acts as a user, for a server that knows that its client is this user.

    Raises `UnknownRole` if there is no such user. With `is_authenticated` False the client has proved nothing, because
    the store has no users: the connection loses its rights when there are some.
    """
    if is_authenticated:
        check_role(connection.session.transactions.store.access, user)
    duplicate = connection.duplicate()
    act_as(duplicate.session, Identity(user, is_authenticated=is_authenticated))
    return duplicate
