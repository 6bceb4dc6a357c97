"""Roles, owners and rights as the catalogs show them.

In a store without roles there is one, under the name of the session's user, as before there were any: it owns
everything. Secrets are not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from ....errors import StatementError, UnknownRole
from ....model.access.rights import LETTERS, Right, Secured, secured
from ....model.access.roles import PUBLIC, STORE_ROLE, STORE_ROLE_NUMBER, Access, Grant, Role
from ....model.namespaces import TEMPORARY_NAMESPACE
from ....model.types import BOOLEAN
from ...array_text import write_array
from ...coercion import cast
from ...expressions import Expr, Literal
from ..names import SYSTEM_SCHEMAS
from .objects import Objects, SystemObject

Row: TypeAlias = dict[str, Any]
_HIDDEN: Final = "********"


def access_of(objects: Objects) -> Access:
    """Users and grants of the store."""
    found: Access = objects.context.catalog.access
    return found


def shown_role(name: str, objects: Objects) -> str:
    """The name under which a role is shown; empty for the store's own."""
    if name in ("", STORE_ROLE):
        return STORE_ROLE if access_of(objects).roles else objects.context.session.user
    return name


def role_names(objects: Objects) -> dict[int, str]:
    """The names of all roles by number."""
    return {role.number: shown_role(role.name, objects) for role in access_of(objects).all_roles()}


def role_number(name: str, objects: Objects) -> int:
    """The number of a role."""
    found = access_of(objects).role(name or STORE_ROLE)
    return STORE_ROLE_NUMBER if found is None else found.number


def secured_object(each: SystemObject) -> Secured | None:
    """A relation as an object with grants; None for an index, and for the catalogs themselves."""
    stored = each.table or each.view
    return None if stored is None or each.kind == "i" else secured(stored)


def owner_number(each: SystemObject, objects: Objects) -> int:
    """The number of a relation's owner."""
    stored = each.table or each.view
    return role_number("" if stored is None else stored.owner, objects)


def owner_name(each: SystemObject, objects: Objects) -> str:
    """The name of a relation's owner."""
    stored = each.table or each.view
    return shown_role("" if stored is None else stored.owner, objects)


def access_list(object_: Secured | None, objects: Objects) -> str | None:
    """The grants on an object as PostgreSQL's array of items; None if nothing was granted."""
    if object_ is None:
        return None
    grants = list(access_of(objects).grants_on([object_.key]))
    if not grants or access_of(objects).is_first:
        return None
    owner = object_.owner or STORE_ROLE
    own = [Grant(object_.key, right, owner, owner, has_option=False) for right in object_.rights]
    pairs = dict.fromkeys((grant.grantee, grant.grantor) for grant in [*own, *grants])
    items = []
    for grantee, grantor in pairs:
        options = {g.right: g.has_option for g in [*own, *grants] if (g.grantee, g.grantor) == (grantee, grantor)}
        letters = "".join(right.value + ("*" if options[right] else "") for right in LETTERS if right in options)
        items.append(f"{_item(grantee, objects)}={letters}/{_item(grantor, objects)}")
    return write_array(items)


def _item(name: str, objects: Objects) -> str:
    return "" if name == PUBLIC else shown_role(name, objects)


# ---- relations -------------------------------------------------------------------------------------------------------


def pg_roles(objects: Objects) -> Iterator[Row]:
    """All roles."""
    for role in access_of(objects).all_roles():
        yield {
            "rolname": shown_role(role.name, objects),
            "rolsuper": role.is_superuser,
            "rolinherit": True,
            "rolcreaterole": role.is_superuser,
            "rolcreatedb": role.is_superuser,
            "rolcanlogin": role.can_login,
            "rolconnlimit": -1,
            "rolpassword": _HIDDEN,
            "rolvaliduntil": role.valid_until,
            "rolbypassrls": role.is_superuser,
            "oid": role.number,
        }


def pg_user(objects: Objects) -> Iterator[Row]:
    """The roles that can log in."""
    for role in access_of(objects).all_roles():
        if role.can_login:
            yield {
                "usename": shown_role(role.name, objects),
                "usesysid": role.number,
                "usecreatedb": role.is_superuser,
                "usesuper": role.is_superuser,
                "usebypassrls": role.is_superuser,
                "passwd": _HIDDEN,
                "valuntil": role.valid_until,
            }


def pg_auth_members(objects: Objects) -> Iterator[Row]:
    """The memberships."""
    for each in access_of(objects).memberships:
        yield {
            "roleid": role_number(each.role, objects),
            "member": role_number(each.member, objects),
            "grantor": role_number(each.grantor, objects),
            "admin_option": each.is_admin,
        }


def _enabled(objects: Objects) -> frozenset[str]:
    """The current role and those of which it is a member; all of them for a statement with all rights."""
    actor = objects.context.actor
    if actor is None:
        return frozenset(role.name for role in access_of(objects).all_roles())
    return actor.access.roles_of(actor.role)


def enabled_roles(objects: Objects) -> Iterator[Row]:
    """The current role and those of which it is a member."""
    for name in sorted(_enabled(objects)):
        yield {"role_name": shown_role(name, objects)}


def applicable_roles(objects: Objects) -> Iterator[Row]:
    """The memberships of the current role."""
    enabled = _enabled(objects)
    for each in access_of(objects).memberships:
        if each.member in enabled:
            grantable = "YES" if each.is_admin else "NO"
            yield {"grantee": each.member, "role_name": each.role, "is_grantable": grantable}


def table_rights(each: SystemObject, objects: Objects) -> Iterator[Row]:
    """The rights on a table or view that the current role has or has granted, its owner's included."""
    object_ = secured_object(each)
    if object_ is None:
        return
    owner, enabled = object_.owner or STORE_ROLE, _enabled(objects)
    found = [Grant(object_.key, right, owner, owner, has_option=True) for right in object_.rights]
    for grant in (*found, *access_of(objects).grants_on([object_.key])):
        if grant.grantee == PUBLIC or grant.grantee in enabled or grant.grantor in enabled:
            yield {
                "grantor": shown_role(grant.grantor, objects),
                "grantee": "PUBLIC" if grant.grantee == PUBLIC else shown_role(grant.grantee, objects),
                "privilege_type": grant.right.name,
                "is_grantable": "YES" if grant.has_option else "NO",
                "with_hierarchy": "YES" if grant.right is Right.SELECT else "NO",
            }


def without_others(rows: list[Row], objects: Objects) -> list[Row]:
    """Statements, or their operators, as the current role may see them: what others have written is for superusers."""
    actor = objects.context.actor
    if actor is None or actor.is_superuser:
        return rows
    kept = (actor.role, actor.user)
    hidden = "<insufficient privilege>"
    others = {"statement": hidden, "error": None, "operator": hidden, "details": None}
    return [row if row["user_name"] in kept else {**row, **others} for row in rows]


# ---- functions -------------------------------------------------------------------------------------------------------


def role_of_argument(value: Expr | None, objects: Objects) -> Role | None:
    """The role in the argument of a function; None for the current one, if that has all rights."""
    access, actor = access_of(objects), objects.context.actor
    if value is None:
        return None if actor is None else access.role(actor.role)
    if not isinstance(value, Literal) or value.value is None:
        raise StatementError("a right is looked up for a user that is a constant, or for the current one")
    text = str(value.value)
    if text == objects.context.session.user and actor is None:
        return None
    names = role_names(objects)
    name = names.get(int(text), text) if text.isdigit() else text
    found = access.role(name)
    if found is None:
        raise UnknownRole(f"role {name} does not exist")
    return found


def rights_of_argument(value: Expr, object_kind: str) -> list[tuple[Right, bool]]:
    """The rights in an argument such as 'SELECT, INSERT WITH GRANT OPTION'; one of them is enough."""
    if not isinstance(value, Literal) or not isinstance(value.value, str):
        raise StatementError("a right is a constant text, such as 'SELECT'")
    found = []
    for part in value.value.upper().split(","):
        name = part.strip().removesuffix(" WITH GRANT OPTION")
        if name in Right.__members__:
            found.append((Right[name], part.strip() != name))
        elif name not in ("REFERENCES", "TRIGGER"):
            raise StatementError(f"unrecognized privilege type: {value.value}")
    return found


def has_right(role: Role | None, rights: list[tuple[Right, bool]], object_: Secured | None, objects: Objects) -> bool:
    """True if a role has one of the rights on an object; everyone may read the catalogs."""
    if object_ is None:
        return role is None or role.is_superuser or any(right is Right.SELECT for right, _ in rights)
    if role is None:
        return True
    access = access_of(objects)
    return any(
        access.grantor(role.name, right, object_) is not None
        if has_option
        else access.allows(role.name, right, object_)
        for right, has_option in rights
    )


def on_schemas(args: tuple[Expr, ...], objects: Objects, looked_up: Callable[[Expr, dict[int, str]], Expr]) -> Expr:
    """`has_schema_privilege`, whose schema may differ from row to row. Everyone may use those of the system, and both
    use and fill that of temporary objects."""
    role = role_of_argument(args[0] if len(args) > 2 else None, objects)
    rights = rights_of_argument(args[-1], "schema")

    def allows(schema: str) -> bool:
        if schema in SYSTEM_SCHEMAS:
            return role is None or role.is_superuser or any(right is Right.USAGE for right, _ in rights)
        if schema == TEMPORARY_NAMESPACE:
            return True
        return has_right(role, rights, objects.context.secured_schema(schema), objects)

    texts = {number: "t" if allows(schema) else "f" for schema, number in objects.namespaces.items()}
    return cast(looked_up(args[-2], texts), BOOLEAN)


def on_tables(args: tuple[Expr, ...], objects: Objects, looked_up: Callable[[Expr, dict[int, str]], Expr]) -> Expr:
    """`has_table_privilege`, whose table may differ from row to row."""
    role = role_of_argument(args[0] if len(args) > 2 else None, objects)
    rights = rights_of_argument(args[-1], "table")
    texts = {
        each.oid: "t" if has_right(role, rights, secured_object(each), objects) else "f"
        for each in objects.everything()
    }
    return cast(looked_up(args[-2], texts), BOOLEAN)


def is_member(args: tuple[Expr, ...], objects: Objects) -> Expr:
    """`pg_has_role`."""
    role = role_of_argument(args[0] if len(args) > 2 else None, objects)
    of = role_of_argument(args[-2], objects)
    if role is None or of is None:
        return Literal(BOOLEAN, False, role is None or role.is_superuser)
    return Literal(BOOLEAN, False, access_of(objects).is_member(role.name, of.name))
