"""Writes syntax trees as nyala's SQL; see `dialect.py` for the grammar."""

from __future__ import annotations

from sqlglot import exp, generator

from . import nodes


class NyalaGenerator(generator.Generator):
    """The inverse of `grammar.NyalaParser`."""

    NULL_ORDERING_SUPPORTED = True
    # sqlglot finds a method by its node's name among its own nodes only, so ours are listed.
    TRANSFORMS = {
        **generator.Generator.TRANSFORMS,
        nodes.CreateTable: lambda self, node: self.createtable_sql(node),
        nodes.DropTable: lambda self, node: self.droptable_sql(node),
        nodes.CompactTable: lambda self, node: self.compacttable_sql(node),
        nodes.Upsert: lambda self, node: self.upsert_sql(node),
        nodes.CopyFrom: lambda self, node: self.copyfrom_sql(node),
        nodes.CopyOption: lambda self, node: self.copyoption_sql(node),
        nodes.ShowTables: lambda self, node: self.showtables_sql(node),
        nodes.DescribeTable: lambda self, node: self.describetable_sql(node),
        nodes.Explain: lambda self, node: self.explain_sql(node),
        nodes.DistributeBy: lambda self, node: self.distributeby_sql(node),
        nodes.HashPartition: lambda self, node: self.hashpartition_sql(node),
        nodes.RangePartition: lambda self, node: self.rangepartition_sql(node),
        nodes.RangeBounds: lambda self, node: self.rangebounds_sql(node),
        nodes.Replicas: lambda self, node: self.replicas_sql(node),
        nodes.TableComment: lambda self, node: self.tablecomment_sql(node),
        nodes.EncodingConstraint: lambda self, node: self.encodingconstraint_sql(node),
        nodes.CompressionConstraint: lambda self, node: self.compressionconstraint_sql(node),
    }
    TYPE_MAPPING = {
        **generator.Generator.TYPE_MAPPING,
        exp.DataType.Type.TINYINT: "TINYINT",
        exp.DataType.Type.FLOAT: "FLOAT",
        exp.DataType.Type.DOUBLE: "DOUBLE",
        exp.DataType.Type.TEXT: "STRING",
        exp.DataType.Type.BINARY: "BINARY",
    }

    def createtable_sql(self, node: nodes.CreateTable) -> str:
        exists = "IF NOT EXISTS " if node.args.get("exists") else ""
        body = f" ({self.expressions(node, flat=True)})" if node.expressions else ""
        clauses = "".join(f" {self.sql(clause)}" for clause in node.args.get("clauses") or [])
        query = f" AS {self.sql(node, 'query')}" if node.args.get("query") else ""
        return f"CREATE TABLE {exists}{self.sql(node, 'this')}{body}{clauses}{query}"

    def droptable_sql(self, node: nodes.DropTable) -> str:
        exists = "IF EXISTS " if node.args.get("exists") else ""
        return f"DROP TABLE {exists}{self.sql(node, 'this')}"

    def compacttable_sql(self, node: nodes.CompactTable) -> str:
        return f"COMPACT TABLE {self.sql(node, 'this')}"

    def upsert_sql(self, node: nodes.Upsert) -> str:
        return f"UPSERT INTO {self.sql(node, 'this')} {self.sql(node, 'expression')}"

    def copyfrom_sql(self, node: nodes.CopyFrom) -> str:
        columns = f" ({self.expressions(node, flat=True)})" if node.expressions else ""
        options = f" ({self.expressions(node, key='options', flat=True)})" if node.args.get("options") else ""
        return f"COPY {self.sql(node, 'this')}{columns} FROM {self.sql(node, 'path')}{options}"

    def copyoption_sql(self, node: nodes.CopyOption) -> str:
        value = self.sql(node, "expression")
        return f"{self.sql(node, 'this')} {value}" if value else self.sql(node, "this")

    def showtables_sql(self, node: nodes.ShowTables) -> str:
        return "SHOW TABLES"

    def describetable_sql(self, node: nodes.DescribeTable) -> str:
        return f"DESCRIBE {self.sql(node, 'this')}"

    def explain_sql(self, node: nodes.Explain) -> str:
        words = [word.upper() for word in ("analyze", "verbose") if node.args.get(word)]
        return " ".join(["EXPLAIN", *words, self.sql(node, "this")])

    def distributeby_sql(self, node: nodes.DistributeBy) -> str:
        return f"DISTRIBUTE BY {self.expressions(node, flat=True)}"

    def hashpartition_sql(self, node: nodes.HashPartition) -> str:
        columns = f" ({self.expressions(node, flat=True)})" if node.expressions else ""
        return f"HASH{columns} INTO {self.sql(node, 'buckets')} BUCKETS"

    def rangepartition_sql(self, node: nodes.RangePartition) -> str:
        if node.args.get("splits"):
            body = f"SPLIT ROWS ({self.expressions(node, key='splits', flat=True)})"
        else:
            body = self.expressions(node, key="partitions", flat=True)
        return f"RANGE ({self.expressions(node, flat=True)}) ({body})"

    def rangebounds_sql(self, node: nodes.RangeBounds) -> str:
        lower = f"{self.sql(node, 'lower')} <= " if node.args.get("lower") else ""
        upper = f" < {self.sql(node, 'upper')}" if node.args.get("upper") else ""
        return f"PARTITION {lower}VALUES{upper}"

    def replicas_sql(self, node: nodes.Replicas) -> str:
        return f"REPLICAS {self.sql(node, 'this')}"

    def tablecomment_sql(self, node: nodes.TableComment) -> str:
        return f"COMMENT {self.sql(node, 'this')}"

    def encodingconstraint_sql(self, node: nodes.EncodingConstraint) -> str:
        return f"ENCODING {self.sql(node, 'this')}"

    def compressionconstraint_sql(self, node: nodes.CompressionConstraint) -> str:
        return f"COMPRESSION {self.sql(node, 'this')}"

    def parameter_sql(self, expression: exp.Parameter) -> str:
        return f"${self.sql(expression, 'this')}"
