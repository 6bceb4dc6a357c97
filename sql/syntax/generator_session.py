"""Writes the statements about prepared statements and cursors; the inverse of `grammar.session`."""

from __future__ import annotations

from typing import Any

from sqlglot import generator

from . import nodes


class SessionGenerator(generator.Generator):
    """The part of `generator.NyalaGenerator` for prepared statements and cursors."""

    def preparestatement_sql(self, node: nodes.PrepareStatement) -> str:
        types = self.expressions(node, flat=True)
        return f"PREPARE {self.sql(node, 'this')}{f' ({types})' if types else ''} AS {node.args['text']}"

    def executestatement_sql(self, node: nodes.ExecuteStatement) -> str:
        values = self.expressions(node, flat=True)
        return f"EXECUTE {self.sql(node, 'this')}{f' ({values})' if values else ''}"

    def deallocatestatement_sql(self, node: nodes.DeallocateStatement) -> str:
        return f"DEALLOCATE {self._name(node)}"

    def discardsession_sql(self, node: nodes.DiscardSession) -> str:
        return f"DISCARD {node.name}"

    def declarecursor_sql(self, node: nodes.DeclareCursor) -> str:
        scroll = {True: " SCROLL", False: " NO SCROLL", None: ""}[node.args.get("scroll")]
        hold = " WITH HOLD" if node.args.get("hold") else ""
        return f"DECLARE {self.sql(node, 'this')}{scroll} CURSOR{hold} FOR {node.args['text']}"

    def fetchcursor_sql(self, node: nodes.FetchCursor) -> str:
        count = node.args.get("count")
        steps = f"{node.args['direction']} {'ALL' if count is None else count}"
        return f"{'MOVE' if node.args.get('move') else 'FETCH'} {steps} FROM {self.sql(node, 'this')}"

    def closecursor_sql(self, node: nodes.CloseCursor) -> str:
        return f"CLOSE {self._name(node)}"

    def unlisten_sql(self, node: nodes.Unlisten) -> str:
        return "UNLISTEN *"

    def _name(self, node: Any) -> str:
        return self.sql(node, "this") or "ALL"
