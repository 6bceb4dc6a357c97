"""Binds CREATE, ALTER and DROP ROLE, GRANT and REVOKE of roles, and SET ROLE."""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp

from ....errors import PermissionDenied, StatementError
from ....model.access.passwords import verifier_text
from ....model.access.roles import PUBLIC, STORE_ROLE, Access, Membership, Role
from ....model.access.steps import (
    AccessStep,
    AddMember,
    AlterRole,
    CreateRole,
    DropRole,
    PermitNoUsers,
    RemoveMember,
    apply_access_steps,
    check_role,
)
from ....model.types import STRING, TIMESTAMP
from ...bound_access import ChangeAccess, SetRole
from ...coercion import cast
from ...expressions import Literal
from ...syntax import nodes
from ..context import Context, Frame, name_of
from ..scope import Scope

_RESERVED: Final = ("public", "none")
_OWN_NAMES: Final = ("current_user", "current_role", "session_user", "user")


def current_access(context: Context) -> Access:
    """The users and grants that the statement sees."""
    found: Access = context.catalog.access
    return found


def acting_role(context: Context) -> str:
    """The role that the statement acts as."""
    return STORE_ROLE if context.actor is None else context.actor.role


def role_named(node: Any, context: Context) -> str:
    """The name of a role that exists; CURRENT_USER is the current one."""
    name = name_of(node)
    if name in _OWN_NAMES and not node.args.get("quoted"):
        if name == "session_user" and context.actor is not None:
            return context.actor.user
        return acting_role(context)
    with context.at(node):
        return check_role(current_access(context), name).name


def grantee_named(node: Any, context: Context) -> str:
    """`role_named`, or PUBLIC."""
    return PUBLIC if name_of(node) == "public" else role_named(node, context)


# ---- roles -----------------------------------------------------------------------------------------------------------


def bind_create_role(node: Any, context: Context) -> ChangeAccess:
    """Binds CREATE USER and CREATE ROLE: a user is a role that can log in."""
    _require_superuser(context, "CREATE ROLE")
    name = name_of(node.this)
    with context.at(node.this):
        if not name or name in _RESERVED or name.startswith("pg_"):
            raise StatementError(f'a role cannot be called "{name}": the name is reserved')
    options = _options(node, context)
    roles = options.pop("in_role", ())
    role = Role(name, **{"can_login": bool(node.args.get("user")), **options})
    steps: list[AccessStep] = [CreateRole(role)]
    steps += [AddMember(Membership(other, name, acting_role(context))) for other in roles]
    with context.at(node.this):
        return _possible(steps, context)


def bind_alter_role(node: Any, context: Context) -> ChangeAccess:
    """Binds ALTER ROLE. A user may change the own password; all else is for superusers."""
    name = role_named(node.this, context)
    options = _options(node, context)
    if not (set(options) == {"verifier"} and name == acting_role(context)):
        _require_superuser(context, "ALTER ROLE of another role, or of more than the own password,")
    with context.at(node.this):
        if name == STORE_ROLE and (options.get("is_superuser") is False or options.get("can_login") is False):
            raise StatementError(f"role {STORE_ROLE} is the store's own: it stays a superuser that can log in")
        return _possible([AlterRole(name, tuple(sorted(options.items())))], context)


def bind_drop_role(node: Any, context: Context) -> ChangeAccess:
    """Binds DROP ROLE. With FORCE also the last user, or the last superuser."""
    _require_superuser(context, "DROP ROLE")
    steps: list[AccessStep] = [PermitNoUsers()] if node.args.get("force") else []
    for item in node.expressions:
        if node.args.get("exists") and current_access(context).role(name_of(item)) is None:
            continue
        name = role_named(item, context)
        with context.at(item):
            if name == STORE_ROLE:
                raise StatementError(f"role {STORE_ROLE} is the store's own, and stays")
            if context.actor is not None and name in (context.actor.role, context.actor.user):
                raise StatementError(f"role {name} is the current one, and cannot be dropped by itself")
        steps.append(DropRole(name))
    with context.at(node.expressions[0]):
        return _possible(steps, context)


def _require_superuser(context: Context, what: str) -> None:
    if context.actor is not None:
        context.actor.require_superuser(what)


def _options(node: Any, context: Context) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for option in node.expressions:
        with context.at(option):
            name, value = _option(option, context)
            if name in found:
                raise StatementError(f"the option {option.args['this'].replace('_', ' ').upper()} is given twice")
            found[name] = value
    return found


def _option(option: Any, context: Context) -> tuple[str, Any]:
    name, value = option.args["this"], option.expression
    if name == "in_role":
        return name, tuple(role_named(item, context) for item in value.expressions)
    if isinstance(value, exp.Boolean):
        return {"login": "can_login", "superuser": "is_superuser"}[name], bool(value.this)
    text = None if isinstance(value, exp.Null) else _text(value, name, context)
    if name == "password":
        if text == "":
            raise StatementError("the password is empty")
        return "verifier", "" if text is None else verifier_text(text)
    assert text is not None
    if text.strip().lower() == "infinity":
        return name, None
    moment = cast(Literal(STRING, False, text), TIMESTAMP)
    assert isinstance(moment, Literal)
    return name, moment.value


def _text(node: Any, what: str, context: Context) -> str:
    value = Frame(context, Scope(), what.replace("_", " ").upper()).bind(node)
    if not isinstance(value, Literal) or not isinstance(value.value, str):
        raise StatementError(f"{what.replace('_', ' ').upper()} is a text")
    return value.value


def _possible(steps: list[AccessStep], context: Context) -> ChangeAccess:
    """The steps, tried on the current state, so that an error has its position."""
    apply_access_steps(current_access(context), steps, context.secured_objects())
    return ChangeAccess(tuple(steps))


# ---- membership ------------------------------------------------------------------------------------------------------


def bind_grant_role(node: Any, context: Context) -> ChangeAccess:
    """Binds GRANT role TO role."""
    steps: list[AccessStep] = []
    for item in node.expressions:
        role = _administered(item, context)
        for member in node.args["members"]:
            name = role_named(member, context)
            steps.append(AddMember(Membership(role, name, acting_role(context), bool(node.args.get("option")))))
    with context.at(node.expressions[0]):
        return _possible(steps, context)


def bind_revoke_role(node: Any, context: Context) -> ChangeAccess:
    """Binds REVOKE role FROM role."""
    steps: list[AccessStep] = []
    for item in node.expressions:
        role = _administered(item, context)
        for member in node.args["members"]:
            steps.append(RemoveMember(role, role_named(member, context), bool(node.args.get("option"))))
    return ChangeAccess(tuple(steps))


def _administered(node: Any, context: Context) -> str:
    """The role whose members are changed."""
    name, actor = role_named(node, context), context.actor
    if actor is not None:
        with context.at(node):
            access = actor.access
            if access.is_superuser(name) and not actor.is_superuser:
                raise PermissionDenied(
                    f"permission denied: role {name} is a superuser, whose members superusers choose"
                )
            if not access.may_add_members(actor.role, name):
                raise PermissionDenied(
                    f"permission denied: {actor.shown} needs role {name} WITH ADMIN OPTION to change its members"
                )
    return name


# ---- the current role ------------------------------------------------------------------------------------------------


def bind_set_role(node: nodes.SetRole, context: Context) -> SetRole:
    """Binds SET ROLE: the session's user must be a member of the role. Without an actor, all roles are allowed."""
    if node.this is None:
        return SetRole(None)
    name, actor = role_named(node.this, context), context.actor
    if actor is not None and not actor.access.is_member(actor.user, name):
        with context.at(node.this):
            raise PermissionDenied(f"permission denied to set role {name}: user {actor.user} is no member of it")
    return SetRole(name)
