"""Syntax nodes of the statements about users, roles and rights; `nodes` has the others."""

from __future__ import annotations

from sqlglot import exp


class CreateRole(exp.Expression):
    """`CREATE ROLE this expressions`; with `user` CREATE USER."""

    arg_types = {"this": True, "user": False, "expressions": False}


class AlterRole(exp.Expression):
    """`ALTER ROLE this expressions`."""

    arg_types = {"this": True, "expressions": True}


class RoleOption(exp.Expression):
    """An option of a role: `this` is its name, `expression` its value."""

    arg_types = {"this": True, "expression": True}


class DropRole(exp.Expression):
    """`DROP ROLE expressions [FORCE]`."""

    arg_types = {"expressions": True, "exists": False, "force": False}


class GrantRight(exp.Expression):
    """`GRANT rights ON kind expressions TO grantees`; no rights mean ALL, `option` WITH GRANT OPTION."""

    arg_types = {"rights": False, "kind": True, "expressions": True, "grantees": True, "option": False}


class RevokeRight(exp.Expression):
    """`REVOKE rights ON kind expressions FROM grantees`; `option` means GRANT OPTION FOR."""

    arg_types = {
        "rights": False,
        "kind": True,
        "expressions": True,
        "grantees": True,
        "option": False,
        "cascade": False,
    }


class GrantRole(exp.Expression):
    """`GRANT expressions TO members`; `option` means WITH ADMIN OPTION."""

    arg_types = {"expressions": True, "members": True, "option": False}


class RevokeRole(exp.Expression):
    """`REVOKE expressions FROM members`; `option` means ADMIN OPTION FOR."""

    arg_types = {"expressions": True, "members": True, "option": False}


class SetRole(exp.Expression):
    """`SET ROLE this`; RESET ROLE without it."""

    arg_types = {"this": False}


class ShowGrants(exp.Expression):
    """`SHOW GRANTS ON this`, `SHOW GRANTS FOR role`, or all of them."""

    arg_types = {"this": False, "role": False}


class ShowRoles(exp.Expression):
    """`SHOW ROLES`."""

    arg_types: dict[str, bool] = {}


class SetTableOwner(exp.Expression):
    """`OWNER TO this` of ALTER TABLE."""

    arg_types = {"this": True}


ALL = tuple(node for node in tuple(globals().values()) if isinstance(node, type) and node.__module__ == __name__)
"""Every kind of node above."""
