"""Writes the statements about users, roles and rights; the inverse of `grammar.access`."""

from __future__ import annotations

from typing import Any

from sqlglot import exp, generator

from . import nodes

_SWITCHES = {("login", True): "LOGIN", ("login", False): "NOLOGIN"}
_SWITCHES |= {("superuser", True): "SUPERUSER", ("superuser", False): "NOSUPERUSER"}


class AccessGenerator(generator.Generator):
    """The part of `generator.NyalaGenerator` for users, roles and rights."""

    def createrole_sql(self, node: nodes.CreateRole) -> str:
        return f"CREATE {'USER' if node.args.get('user') else 'ROLE'} {self.sql(node, 'this')}{self._options(node)}"

    def alterrole_sql(self, node: nodes.AlterRole) -> str:
        return f"ALTER ROLE {self.sql(node, 'this')}{self._options(node)}"

    def roleoption_sql(self, node: nodes.RoleOption) -> str:
        name, value = node.args["this"], node.expression
        if isinstance(value, exp.Boolean):
            return _SWITCHES[name, bool(value.this)]
        if name == "in_role":
            return f"IN ROLE {self.expressions(value, flat=True)}"
        return f"{name.replace('_', ' ').upper()} {self.sql(value)}"

    def droprole_sql(self, node: nodes.DropRole) -> str:
        exists, force = ("IF EXISTS " if node.args.get("exists") else ""), (" FORCE" if node.args.get("force") else "")
        return f"DROP ROLE {exists}{self.expressions(node, flat=True)}{force}"

    def grantright_sql(self, node: nodes.GrantRight) -> str:
        option = " WITH GRANT OPTION" if node.args.get("option") else ""
        return f"GRANT {self._rights(node)} TO {self._names(node, 'grantees')}{option}"

    def revokeright_sql(self, node: nodes.RevokeRight) -> str:
        option = "GRANT OPTION FOR " if node.args.get("option") else ""
        cascade = " CASCADE" if node.args.get("cascade") else ""
        return f"REVOKE {option}{self._rights(node)} FROM {self._names(node, 'grantees')}{cascade}"

    def grantrole_sql(self, node: nodes.GrantRole) -> str:
        option = " WITH ADMIN OPTION" if node.args.get("option") else ""
        return f"GRANT {self._names(node, 'expressions')} TO {self._names(node, 'members')}{option}"

    def revokerole_sql(self, node: nodes.RevokeRole) -> str:
        option = "ADMIN OPTION FOR " if node.args.get("option") else ""
        return f"REVOKE {option}{self._names(node, 'expressions')} FROM {self._names(node, 'members')}"

    def setrole_sql(self, node: nodes.SetRole) -> str:
        return f"SET ROLE {self.sql(node, 'this')}" if node.this else "SET ROLE NONE"

    def showgrants_sql(self, node: nodes.ShowGrants) -> str:
        if node.this:
            return f"SHOW GRANTS ON {self.sql(node, 'this')}"
        return f"SHOW GRANTS FOR {self.sql(node, 'role')}" if node.args.get("role") else "SHOW GRANTS"

    def showroles_sql(self, node: nodes.ShowRoles) -> str:
        return "SHOW ROLES"

    def settableowner_sql(self, node: nodes.SetTableOwner) -> str:
        return f"OWNER TO {self.sql(node, 'this')}"

    def _options(self, node: Any) -> str:
        return "".join(f" {self.sql(option)}" for option in node.expressions)

    def _names(self, node: Any, part: str) -> str:
        return ", ".join(self.sql(name) for name in node.args[part])

    def _rights(self, node: Any) -> str:
        kind = {"ALL TABLES": "ALL TABLES IN SCHEMA"}.get(node.args["kind"], node.args["kind"])
        return f"{', '.join(node.args.get('rights') or ['ALL'])} ON {kind} {self.expressions(node, flat=True)}"
