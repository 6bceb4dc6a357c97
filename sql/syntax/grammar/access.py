"""Parses the statements about users, roles and rights.

CREATE | ALTER USER | ROLE name [WITH] option ...    DROP USER | ROLE [IF EXISTS] name, ...
    option: [NO]LOGIN  [NO]SUPERUSER  PASSWORD 'text' | NULL  VALID UNTIL 'time'  IN ROLE name, ...
GRANT right, ... | ALL ON objects TO role, ... [WITH GRANT OPTION]
REVOKE [GRANT OPTION FOR] right, ... | ALL ON objects FROM role, ... [CASCADE]
    objects: [TABLE] name, ... | ALL TABLES IN SCHEMA name, ... | SCHEMA name, ...
GRANT role, ... TO role, ... [WITH ADMIN OPTION]    REVOKE [ADMIN OPTION FOR] role, ... FROM role, ...
SET [SESSION] ROLE name | NONE    RESET ROLE    SHOW GRANTS [ON name | FOR role]    SHOW ROLES

No error shows a quoted text of CREATE or ALTER USER, which may be a password.
"""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp
from sqlglot.tokens import TokenType

from .. import nodes
from .expressions import PlacedParser

_SWITCHES: Final = {
    "LOGIN": ("login", True),
    "NOLOGIN": ("login", False),
    "SUPERUSER": ("superuser", True),
    "NOSUPERUSER": ("superuser", False),
}
_WITHOUT_EFFECT: Final = ("INHERIT", "NOCREATEDB", "NOCREATEROLE", "NOREPLICATION", "NOBYPASSRLS")
"""Options of PostgreSQL whose meaning is what nyala does anyway."""
_NOT_SUPPORTED: Final = {
    "BYPASSRLS": "there are no rights on single rows",
    "CONNECTION": "the server has a limit of connections",
    "CREATEDB": "a store is one database",
    "CREATEROLE": "superusers create roles",
    "NOINHERIT": "members have the rights of their roles",
    "REPLICATION": "Connection.table(name).changes() needs SELECT",
}
_RIGHTS: Final = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "USAGE", "CREATE")
_OTHER_RIGHTS: Final = ("REFERENCES", "TRIGGER", "CONNECT", "TEMPORARY", "TEMP", "EXECUTE", "MAINTAIN")
_OTHER_OBJECTS: Final = (
    "DATABASE",
    "FUNCTION",
    "PROCEDURE",
    "ROUTINE",
    "SEQUENCE",
    "LANGUAGE",
    "TYPE",
    "DOMAIN",
    "TABLESPACE",
)


class AccessParser(PlacedParser):
    """The part of `grammar.statements.NyalaParser` for users, roles and rights."""

    def _is_role_next(self) -> bool:
        """True if USER or ROLE comes next, and a name or IF after it."""
        return self._word() in ("USER", "ROLE", "GROUP")

    # ---- roles -------------------------------------------------------------------------------------------------------

    def _create_role(self) -> Any:
        is_user = self._role_word()
        return nodes.CreateRole(this=self._role_name(), user=is_user, expressions=self._role_options(creates=True))

    def _alter_role(self) -> Any:
        self._role_word()
        name = self._role_name()
        if self._word() in ("RENAME", "SET", "RESET", "IN"):
            self.refuse(f"ALTER ROLE ... {self._word()}", self._curr, hint="its options can be altered")
        options = self._role_options(creates=False)
        if not options:
            self.raise_error(f"{_listed()} expected")
        return nodes.AlterRole(this=name, expressions=options)

    def _drop_role(self) -> Any:
        self._role_word()
        exists = self._parse_exists()
        names = self._parse_csv(self._role_name)
        return nodes.DropRole(expressions=names, exists=exists, force=self._match_text_seq("FORCE"))

    def _role_word(self) -> bool:
        """Skips USER or ROLE; True for USER."""
        word = self._word()
        if word == "GROUP":
            self.refuse("GROUP", self._curr, "ROLE")
        self._advance()
        self.hides_texts = True
        return word == "USER"

    def _role_name(self) -> Any:
        return self._identifier("the name of a role expected")

    def _role_options(self, creates: bool) -> list[Any]:
        self._match(TokenType.WITH)
        found = []
        while self._curr:
            option = self._role_option(creates)
            if option is not None:
                found.append(option)
        return found

    def _role_option(self, creates: bool) -> Any:
        word, token = self._word(), self._curr
        if word in _NOT_SUPPORTED:
            self.refuse(word, token, hint=_NOT_SUPPORTED[word])
        if word in _WITHOUT_EFFECT:
            self._advance()
            return None
        if word in _SWITCHES:
            self._advance()
            name, value = _SWITCHES[word]
            return self._made_option(name, exp.Boolean(this=value), token)
        if self._match_text_seq("ENCRYPTED"):
            word = self._word()
        if word == "PASSWORD":
            self._advance()
            return self._made_option("password", self._secret(), token)
        if self._match_text_seq("VALID", "UNTIL"):
            return self._made_option("valid_until", self._quoted_value("a quoted time"), token)
        if creates and self._match_text_seq("IN", "ROLE"):
            return self._made_option("in_role", exp.Tuple(expressions=self._parse_csv(self._role_name)), token)
        return self.raise_error(f"{_listed()} expected")

    def _made_option(self, name: str, value: Any, token: Any) -> Any:
        option = nodes.RoleOption(this=name, expression=value)
        option.update_positions(token)
        return option

    def _secret(self) -> Any:
        if self._match(TokenType.NULL):
            return exp.Null()
        return self._quoted_value("a quoted text or NULL")

    def _quoted_value(self, expected: str) -> Any:
        """A quoted text or a placeholder; the error is at the word before it, so that it shows nothing of another."""
        texts = (TokenType.STRING, TokenType.HEREDOC_STRING, TokenType.BYTE_STRING)
        if self._curr and self._curr.token_type in texts:
            value = self._parse_primary()
        else:
            value = self._parse_placeholder()
        if not isinstance(value, exp.Literal | exp.Placeholder | exp.Parameter):
            self.raise_error(f"behind {self._prev.text.upper()} {expected} expected", self._prev)
        return value

    # ---- rights ------------------------------------------------------------------------------------------------------

    def _grant(self) -> Any:
        rights, roles = self._granted()
        if roles is not None:
            self._expect("TO")
            members = self._parse_csv(self._role_name)
            return nodes.GrantRole(expressions=roles, members=members, option=self._with_option("ADMIN"))
        kind, objects = self._granted_objects()
        self._expect("TO")
        grantees = self._parse_csv(self._grantee)
        option = self._with_option("GRANT")
        return nodes.GrantRight(rights=rights, kind=kind, expressions=objects, grantees=grantees, option=option)

    def _revoke(self) -> Any:
        only = next((word for word in ("GRANT", "ADMIN") if self._match_text_seq(word, "OPTION", "FOR")), None)
        rights, roles = self._granted()
        if roles is not None and only != "GRANT":
            self._expect("FROM")
            members = self._parse_csv(self._role_name)
            self._cascades()
            return nodes.RevokeRole(expressions=roles, members=members, option=only is not None)
        if only == "ADMIN":
            self.raise_error("ADMIN OPTION is for memberships of roles")
        kind, objects = self._granted_objects()
        self._expect("FROM")
        grantees = self._parse_csv(self._grantee)
        return nodes.RevokeRight(
            rights=rights, kind=kind, expressions=objects, grantees=grantees, option=only is not None,
            cascade=self._cascades(),
        )  # fmt: skip

    def _cascades(self) -> bool:
        self._granted_by()
        return not self._match_text_seq("RESTRICT") and bool(self._match_text_seq("CASCADE"))

    def _granted(self) -> tuple[list[str], list[Any] | None]:
        """Rights before ON, none for ALL; or the names of roles."""
        if self._match(TokenType.ALL):
            self._match_text_seq("PRIVILEGES")
            return [], None
        if self._word() not in (*_RIGHTS, *_OTHER_RIGHTS):
            return [], self._parse_csv(self._role_name)
        rights = [self._right()]
        while self._match(TokenType.COMMA):
            rights.append(self._right())
        return rights, None

    def _right(self) -> str:
        word = self._word()
        if word in _OTHER_RIGHTS:
            self.refuse(f"the right {word}", self._curr, f"{', '.join(_RIGHTS)} and ALL")
        if word not in _RIGHTS:
            self.raise_error(f"{', '.join(_RIGHTS)} or ALL expected")
        self._advance()
        if self._match(TokenType.L_PAREN, advance=False):
            self.refuse("a right on single columns", self._prev, hint="grant it on a view that has these columns")
        return word

    def _granted_objects(self) -> tuple[str, list[Any]]:
        """The kind of the objects after ON, and their names."""
        self._expect("ON")
        if self._match_text_seq("ALL", "TABLES", "IN", "SCHEMA"):
            return "ALL TABLES", self._parse_csv(self._identifier)
        if self._word() == "SCHEMA":
            self._advance()
            return "SCHEMA", self._parse_csv(self._identifier)
        if self._word() in _OTHER_OBJECTS and self._next and self._next.token_type is not TokenType.COMMA:
            self.refuse(f"GRANT ON {self._word()}", self._curr, "ON TABLE, ON ALL TABLES IN SCHEMA and ON SCHEMA")
        self._match(TokenType.TABLE)
        return "TABLE", self._parse_csv(lambda: self._parse_table_parts(schema=True))

    def _grantee(self) -> Any:
        self._match_text_seq("GROUP")
        return self._role_name()

    def _with_option(self, word: str) -> bool:
        found = bool(self._match_text_seq("WITH", word, "OPTION"))
        self._granted_by()
        return found

    def _granted_by(self) -> None:
        if self._word() == "GRANTED":
            self.refuse("GRANTED BY", self._curr, hint="the grantor is the owner, or the current role")

    # ---- the current role --------------------------------------------------------------------------------------------

    def _set_role(self) -> Any:
        """Parses `[SESSION] ROLE name` after SET; None, with nothing consumed, for anything else."""
        start = self._index
        self._match_text_seq("SESSION")
        if self._word() == "AUTHORIZATION":
            self.refuse("SET SESSION AUTHORIZATION", self._curr, "SET ROLE")
        if not self._match_text_seq("ROLE"):
            self._retreat(start)
            return None
        if not self._match(TokenType.EQ):
            self._match_text_seq("TO")
        if self._match(TokenType.DEFAULT) or self._match_text_seq("NONE"):
            return nodes.SetRole()
        if self._match(TokenType.STRING):
            return nodes.SetRole(this=exp.Identifier(this=self._prev.text, quoted=True))
        return nodes.SetRole(this=self._role_name())

    def _show_grants(self) -> Any:
        if self._match_text_seq("ON"):
            self._match(TokenType.TABLE)
            return nodes.ShowGrants(this=self._parse_table_parts(schema=True))
        return nodes.ShowGrants(role=self._role_name() if self._match_text_seq("FOR") else None)

    def _show_roles(self) -> Any:
        return nodes.ShowRoles()


def _listed() -> str:
    return ", ".join((*_SWITCHES, "PASSWORD 'text'", "VALID UNTIL 'time'"))
