"""Parses the statements of transactions, and the lock clauses of a query.

BEGIN [TRANSACTION | WORK] [mode [,] ...]    START TRANSACTION [mode [,] ...]
COMMIT | END [TRANSACTION | WORK]            ROLLBACK | ABORT [TRANSACTION | WORK] [TO [SAVEPOINT] name]
SAVEPOINT name                               RELEASE [SAVEPOINT] name
SET TRANSACTION mode [,] ...                 SET SESSION CHARACTERISTICS AS TRANSACTION mode [,] ...
query FOR {UPDATE | NO KEY UPDATE | SHARE | KEY SHARE} [OF name, ...] [NOWAIT | SKIP LOCKED]

mode: ISOLATION LEVEL level | READ ONLY | READ WRITE | [NOT] DEFERRABLE
"""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp
from sqlglot.tokens import TokenType

from ....model.transactions import Isolation
from .. import nodes, not_supported
from .expressions import PlacedParser

_KINDS: Final = {"ISOLATION": "ISOLATION LEVEL", "READ": "READ ONLY or READ WRITE", "DEFERRABLE": "DEFERRABLE"}
"""The modes that a statement may have, once each, by the first word of each kind."""
_LOCKS: Final = {
    ("UPDATE",): (True, None),
    ("NO", "KEY", "UPDATE"): (True, True),
    ("SHARE",): (False, None),
    ("KEY", "SHARE"): (False, True),
}
"""The words after FOR, with sqlglot's `update` and `key`."""
_SQLITE_MODES: Final = ("DEFERRED", "IMMEDIATE", "EXCLUSIVE", "CONCURRENT")


class TransactionParser(PlacedParser):
    """The part of `grammar.statements.NyalaParser` that parses transactions."""

    def _begin_transaction(self) -> Any:
        if self._word() in _SQLITE_MODES:
            self.refuse(f"BEGIN {self._word()}", self._curr, "BEGIN", not_supported.NO_WAITING)
        self._work()
        return nodes.BeginTransaction(expressions=self._modes())

    def _start_transaction(self) -> Any:
        self._expect("TRANSACTION")
        return nodes.BeginTransaction(expressions=self._modes())

    def _commit_transaction(self) -> Any:
        self._refuse_prepared("COMMIT")
        self._work()
        self._refuse_chain()
        return nodes.CommitTransaction()

    def _rollback_transaction(self) -> Any:
        self._refuse_prepared("ROLLBACK")
        self._work()
        if self._match_text_seq("TO"):
            return nodes.RollbackToSavepoint(this=self._savepoint_name())
        self._refuse_chain()
        return nodes.RollbackTransaction()

    def _savepoint(self) -> Any:
        return nodes.SetSavepoint(this=self._identifier())

    def _release_savepoint(self) -> Any:
        return nodes.ReleaseSavepoint(this=self._savepoint_name())

    def _set_transaction(self) -> Any:
        """Parses the rest of SET TRANSACTION or SET SESSION CHARACTERISTICS; None for another SET."""
        if self._match_text_seq("SESSION", "CHARACTERISTICS"):
            self._expect("AS")
            self._expect("TRANSACTION")
            return nodes.SetSessionCharacteristics(expressions=self._needed_modes())
        if not self._match_text_seq("TRANSACTION"):
            return None
        if self._word() == "SNAPSHOT":
            self.refuse("SET TRANSACTION SNAPSHOT", self._curr, "FOR SYSTEM_TIME AS OF")
        return nodes.SetTransaction(expressions=self._needed_modes())

    # ---- parts -------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        if not self._match_text_seq("TRANSACTION"):
            self._match_text_seq("WORK")

    def _savepoint_name(self) -> Any:
        # SAVEPOINT is no reserved word, so a savepoint may be called so.
        if self._next and self._word() == "SAVEPOINT" and self._next.token_type != TokenType.SEMICOLON:
            self._advance()
        return self._identifier()

    def _refuse_chain(self) -> None:
        if self._match_text_seq("AND"):
            if not self._match_text_seq("NO"):
                self.refuse("AND CHAIN", self._curr, "BEGIN")
            self._expect("CHAIN")

    def _refuse_prepared(self, statement: str) -> None:
        if self._word() == "PREPARED":
            self.refuse(f"{statement} PREPARED", self._curr, hint=not_supported.PREPARED)

    def _needed_modes(self) -> list[Any]:
        return self._modes() or self.raise_error("ISOLATION LEVEL, READ ONLY, READ WRITE or DEFERRABLE expected")

    def _modes(self) -> list[Any]:
        """Transaction modes, with or without commas between them; each kind once."""
        modes: list[Any] = []
        seen: set[str] = set()
        while self._curr:
            if modes and self._match(TokenType.COMMA) and not self._curr:
                self.raise_error("a transaction mode expected")
            start = self._curr
            kind, mode = self._mode()
            if kind in seen:
                self.raise_error(f"{_KINDS[kind]} is written once", start)
            seen.add(kind)
            modes.append(self.expression(nodes.TransactionMode(this=mode), start))
        return modes

    def _mode(self) -> tuple[str, str]:
        if self._match_text_seq("ISOLATION"):
            self._expect("LEVEL")
            for level in Isolation:
                if self._match_text_seq(*level.value.split()):
                    return "ISOLATION", f"ISOLATION LEVEL {level.value}"
            levels = [level.value for level in Isolation]
            self.raise_error(f"{', '.join(levels[:-1])} or {levels[-1]} expected")
        if self._match_text_seq("READ"):
            if self._match_text_seq("ONLY"):
                return "READ", "READ ONLY"
            if not self._match_text_seq("WRITE"):
                self.raise_error("ONLY or WRITE expected")
            return "READ", "READ WRITE"
        if self._match_text_seq("NOT"):
            self._expect("DEFERRABLE")
            return "DEFERRABLE", "NOT DEFERRABLE"
        if self._match_text_seq("DEFERRABLE"):
            return "DEFERRABLE", "DEFERRABLE"
        self.raise_error("ISOLATION LEVEL, READ ONLY, READ WRITE or DEFERRABLE expected")
        raise AssertionError

    # ---- locks -------------------------------------------------------------------------------------------------------

    def _parse_locks(self) -> list[Any]:
        """Parses the lock clauses after a query; none at other uses of FOR."""
        locks = []
        while self._word() == "FOR" and self._next:
            start = self._curr
            found = next((kinds for words, kinds in _LOCKS.items() if self._match_text_seq("FOR", *words)), None)
            if found is None:
                break
            names = self._parse_csv(self._identifier) if self._match_text_seq("OF") else None
            wait = None
            if self._match_text_seq("NOWAIT"):
                wait = True
            elif self._match_text_seq("SKIP"):
                self._expect("LOCKED")
                wait = False
            locks.append(self.expression(exp.Lock(update=found[0], key=found[1], expressions=names, wait=wait), start))
        return locks
