"""Writes the statements that change rows, COPY and settings; the inverse of `grammar.writes`."""

from __future__ import annotations

from sqlglot import exp, generator

from . import nodes


class WriteGenerator(generator.Generator):
    """The part of `generator.NyalaGenerator` for INSERT, UPSERT, COPY, SET and RESET."""

    def insert_sql(self, expression: exp.Insert) -> str:
        ignore = " IGNORE" if expression.args.get("ignore") else ""
        conflict = f" {self.sql(expression, 'conflict')}" if expression.args.get("conflict") else ""
        source = "DEFAULT VALUES" if expression.args.get("default") else self.sql(expression, "expression")
        returning = self.sql(expression, "returning")
        text = f"INSERT{ignore} INTO {self.sql(expression, 'this')} {source}{conflict}{returning}"
        return str(self.prepend_ctes(expression, text))

    def onconflict_sql(self, expression: exp.OnConflict) -> str:
        keys = (
            f" ({self.expressions(expression, key='conflict_keys', flat=True)})"
            if expression.args.get("conflict_keys")
            else ""
        )
        changes = f" SET {self.expressions(expression, flat=True)}" if expression.expressions else ""
        return f"ON CONFLICT{keys} {self.sql(expression, 'action')}{changes}{self.sql(expression, 'where')}"

    def upsert_sql(self, node: nodes.Upsert) -> str:
        returning = self.sql(node, "returning")
        text = f"UPSERT INTO {self.sql(node, 'this')} {self.sql(node, 'expression')}{returning}"
        return str(self.prepend_ctes(node, text))

    def copyfrom_sql(self, node: nodes.CopyFrom) -> str:
        return f"COPY {self.sql(node, 'this')}{self._copied(node)} FROM {self._copy_path(node)}"

    def copyto_sql(self, node: nodes.CopyTo) -> str:
        source = self.sql(node, "this")
        source = f"({source})" if isinstance(node.this, exp.Query | exp.Values) else source
        return f"COPY {source}{self._copied(node)} TO {self._copy_path(node)}"

    def _copied(self, node: nodes.CopyFrom | nodes.CopyTo) -> str:
        return f" ({self.expressions(node, flat=True)})" if node.expressions else ""

    def _copy_path(self, node: nodes.CopyFrom | nodes.CopyTo) -> str:
        options = f" ({self.expressions(node, key='options', flat=True)})" if node.args.get("options") else ""
        return f"{self.sql(node, 'path')}{options}"

    def copyoption_sql(self, node: nodes.CopyOption) -> str:
        value = self.sql(node, "expression")
        return f"{self.sql(node, 'this')} {value}" if value else self.sql(node, "this")

    def filename_sql(self, node: nodes.FileName) -> str:
        return str(self.sql(exp.Literal.string(node.this)))

    def setsetting_sql(self, node: nodes.SetSetting) -> str:
        if node.this.name == "search_path" and isinstance(node.expression, exp.Literal):
            return f"SET search_path = {node.expression.this}"  # a list of names
        return f"SET {self.sql(node, 'this')} = {self.sql(node, 'expression')}"

    def resetsetting_sql(self, node: nodes.ResetSetting) -> str:
        return f"RESET {self.sql(node, 'this') or 'ALL'}"

    def showsettings_sql(self, node: nodes.ShowSettings) -> str:
        return f"SHOW {self.sql(node, 'this') or 'ALL'}"
