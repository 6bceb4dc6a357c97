"""Binds GRANT and REVOKE of rights, and SHOW GRANTS.

The grantor is the object's owner, if the current role is a member of it or a superuser; else a role with the grant
option, as in PostgreSQL. ALL means the rights that the grantor can grant.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....errors import InvalidGrant, NotSupportedError, PermissionDenied, StatementError
from ....model.access.rights import Right, Secured, secured
from ....model.access.roles import PUBLIC, STORE_ROLE, Grant
from ....model.access.steps import AccessStep, AddGrant, RemoveGrant, apply_access_steps
from ....model.namespaces import TEMPORARY_NAMESPACE
from ....model.schema import Table, View
from ...bound_access import ChangeAccess, ShowGrants, ShowRoles
from ..context import Context, name_of
from ..names import SYSTEM_SCHEMAS, canonical, check_schema, table_name
from .roles import acting_role, current_access, grantee_named, role_named


def bind_grant(node: Any, context: Context) -> ChangeAccess:
    """Binds GRANT right ON object."""
    has_option = bool(node.args.get("option"))
    steps: list[AccessStep] = []
    for item, object_ in _objects(node, context):
        for right, grantor in _granted(node, item, object_, context):
            for grantee_node in node.args["grantees"]:
                grantee = grantee_named(grantee_node, context)
                with context.at(grantee_node):
                    if has_option and grantee == PUBLIC:
                        raise InvalidGrant("WITH GRANT OPTION is for roles, and not for PUBLIC")
                steps.append(AddGrant(Grant(object_.key, right, grantee, grantor, has_option)))
    return _possible(node, steps, context)


def bind_revoke(node: Any, context: Context) -> ChangeAccess:
    """Binds REVOKE right ON object. What was not granted is passed over."""
    only, cascade = bool(node.args.get("option")), bool(node.args.get("cascade"))
    steps: list[AccessStep] = []
    for item, object_ in _objects(node, context):
        for right, grantor in _granted(node, item, object_, context):
            for grantee_node in node.args["grantees"]:
                grantee = grantee_named(grantee_node, context)
                steps.append(RemoveGrant(object_.key, right, grantee, grantor, only, cascade))
    return _possible(node, steps, context)


def _possible(node: Any, steps: list[AccessStep], context: Context) -> ChangeAccess:
    with context.at(node.expressions[0]):
        apply_access_steps(current_access(context), steps, context.secured_objects())
    return ChangeAccess(tuple(steps))


def _objects(node: Any, context: Context) -> Iterator[tuple[Any, Secured]]:
    """The objects after ON, with their syntax."""
    kind = node.args["kind"]
    for item in node.expressions:
        if kind == "TABLE":
            found_one = find_object(item, context)
            with context.at(item):
                _refuse_temporary(found_one.namespace)
            yield item, secured(found_one)
            continue
        schema = _schema(item, context)
        if kind == "SCHEMA":
            yield item, schema
            continue
        found: list[Table | View] = [*context.catalog.tables(), *context.catalog.views()]
        yield from ((item, secured(each)) for each in found if each.namespace == schema.name)


def _refuse_temporary(schema: str) -> None:
    if schema == TEMPORARY_NAMESPACE:
        raise NotSupportedError("no rights on temporary objects are granted: only the session that makes them has them")


def find_object(node: Any, context: Context) -> Table | View:
    """The table or view that a name refers to."""
    with context.at(node):
        name = table_name(node, context)
        return context.catalog.view(name) or context.catalog.table(name)


def _schema(node: Any, context: Context) -> Secured:
    name = canonical(name_of(node))
    with context.at(node):
        if name in SYSTEM_SCHEMAS:
            raise StatementError(f"everyone may read {name}; no rights on it are granted")
        _refuse_temporary(name)
        check_schema(name, context)
    return context.secured_schema(name)


def _granted(node: Any, item: Any, object_: Secured, context: Context) -> list[tuple[Right, str]]:
    """The rights that are named, each with its grantor."""
    names = node.args.get("rights") or []
    found = []
    with context.at(item):
        for right in [Right[name] for name in names] or object_.rights:
            if right not in object_.rights:
                has = ", ".join(possible.name for possible in object_.rights)
                raise InvalidGrant(f"{right.name} is no right on a {object_.kind}, which has {has}")
            grantor = current_access(context).grantor(acting_role(context), right, object_)
            if grantor is not None:
                found.append((right, grantor))
            elif names:
                raise _no_option(right, object_, context)
        if not found:
            raise _no_option(object_.rights[0], object_, context)
    return found


def _no_option(right: Right, object_: Secured, context: Context) -> PermissionDenied:
    assert context.actor is not None
    return PermissionDenied(
        f"permission denied for {object_.kind} {object_.name}: {context.actor.shown} needs {right.name} WITH GRANT "
        "OPTION to grant or revoke it"
    )


# ---- SHOW ------------------------------------------------------------------------------------------------------------


def bind_show_grants(node: Any, context: Context) -> ShowGrants:
    """Binds SHOW GRANTS."""
    if node.this is not None:
        return ShowGrants(key=secured(find_object(node.this, context)).key)
    role = node.args.get("role")
    return ShowGrants(role=None if role is None else grantee_named(role, context))


def bind_show_roles(node: Any, context: Context) -> ShowRoles:
    """Binds SHOW ROLES."""
    return ShowRoles()


def owner_of_object(node: Any, object_: Table | View, context: Context) -> str:
    """The new owner of ALTER TABLE or ALTER VIEW ... OWNER TO, as objects have it.

    Raises `PermissionDenied` unless the current role is a member of it, and it may create objects in the schema.
    """
    with context.at(node):
        _refuse_temporary(object_.namespace)
    name, actor = new_owner(node, context), context.actor
    if actor is not None and not actor.is_superuser:
        with context.at(node):
            schema = context.secured_schema(object_.namespace)
            if not actor.access.allows(name or STORE_ROLE, Right.CREATE, schema):
                raise PermissionDenied(f"permission denied for schema {schema.name}: role {name} needs CREATE on it")
    return name


def new_owner(node: Any, context: Context) -> str:
    """The role of OWNER TO, as objects have it. Raises `PermissionDenied` unless the current role is a member of it."""
    name, actor = role_named(node, context), context.actor
    if actor is not None and not actor.is_superuser and not actor.access.is_member(actor.role, name):
        with context.at(node):
            raise PermissionDenied(f"permission denied: {actor.shown} is no member of role {name}")
    return "" if name == STORE_ROLE else name
