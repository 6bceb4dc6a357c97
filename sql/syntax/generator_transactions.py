"""Writes the statements of transactions; the inverse of `grammar.transactions`."""

from __future__ import annotations

from sqlglot import generator

from . import nodes


class TransactionGenerator(generator.Generator):
    """The part of `generator.NyalaGenerator` for transactions."""

    LOCKING_READS_SUPPORTED = True

    def begintransaction_sql(self, node: nodes.BeginTransaction) -> str:
        return f"BEGIN {self._modes(node)}".rstrip()

    def transactionmode_sql(self, node: nodes.TransactionMode) -> str:
        return str(node.name)

    def committransaction_sql(self, node: nodes.CommitTransaction) -> str:
        return "COMMIT"

    def rollbacktransaction_sql(self, node: nodes.RollbackTransaction) -> str:
        return "ROLLBACK"

    def setsavepoint_sql(self, node: nodes.SetSavepoint) -> str:
        return f"SAVEPOINT {self.sql(node, 'this')}"

    def releasesavepoint_sql(self, node: nodes.ReleaseSavepoint) -> str:
        return f"RELEASE SAVEPOINT {self.sql(node, 'this')}"

    def rollbacktosavepoint_sql(self, node: nodes.RollbackToSavepoint) -> str:
        return f"ROLLBACK TO SAVEPOINT {self.sql(node, 'this')}"

    def settransaction_sql(self, node: nodes.SetTransaction) -> str:
        return f"SET TRANSACTION {self._modes(node)}"

    def setsessioncharacteristics_sql(self, node: nodes.SetSessionCharacteristics) -> str:
        return f"SET SESSION CHARACTERISTICS AS TRANSACTION {self._modes(node)}"

    def _modes(self, node: nodes.TransactionModes) -> str:
        return str(self.expressions(node, flat=True))
