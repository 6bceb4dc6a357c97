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
        **dict.fromkeys(nodes.ALL, lambda self, node: getattr(self, f"{node.key}_sql")(node)),
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

    def altertable_sql(self, node: nodes.AlterTable) -> str:
        return f"ALTER TABLE {self.sql(node, 'this')} {self.expressions(node, flat=True)}"

    def addcolumn_sql(self, node: nodes.AddColumn) -> str:
        exists = "IF NOT EXISTS " if node.args.get("exists") else ""
        return f"ADD COLUMN {exists}{self.sql(node, 'this')}"

    def dropcolumn_sql(self, node: nodes.DropColumn) -> str:
        exists = "IF EXISTS " if node.args.get("exists") else ""
        return f"DROP COLUMN {exists}{self.sql(node, 'this')}"

    def renamecolumn_sql(self, node: nodes.RenameColumn) -> str:
        return f"RENAME COLUMN {self.sql(node, 'this')} TO {self.sql(node, 'expression')}"

    def renametable_sql(self, node: nodes.RenameTable) -> str:
        return f"RENAME TO {self.sql(node, 'this')}"

    def altercolumn_sql(self, node: nodes.AlterColumn) -> str:
        setting = self.sql(node, "expression")
        return f"ALTER COLUMN {self.sql(node, 'this')} " + (f"SET {setting}" if setting else "DROP DEFAULT")

    def addpartition_sql(self, node: nodes.AddPartition) -> str:
        return f"ADD RANGE {self.sql(node, 'this')}"

    def droppartition_sql(self, node: nodes.DropPartition) -> str:
        return f"DROP RANGE {self.sql(node, 'this')}"

    def truncatetable_sql(self, node: nodes.TruncateTable) -> str:
        return f"TRUNCATE TABLE {self.sql(node, 'this')}"

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

    def showcreatetable_sql(self, node: nodes.ShowCreateTable) -> str:
        return f"SHOW CREATE TABLE {self.sql(node, 'this')}"

    def showpartitions_sql(self, node: nodes.ShowPartitions) -> str:
        return f"SHOW PARTITIONS {self.sql(node, 'this')}"

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
        if node.args.get("value"):
            return f"PARTITION VALUE = {self.sql(node, 'value')}"
        lower = f"{self.sql(node, 'lower')} <= " if node.args.get("lower") else ""
        upper = f" < {self.sql(node, 'upper')}" if node.args.get("upper") else ""
        return f"PARTITION {lower}VALUES{upper}"

    def replicas_sql(self, node: nodes.Replicas) -> str:
        return f"REPLICAS {self.sql(node, 'this')}"

    def tablecomment_sql(self, node: nodes.TableComment) -> str:
        return f"COMMENT {self.sql(node, 'this')}"

    def storedas_sql(self, node: nodes.StoredAs) -> str:
        return f"STORED AS {self.sql(node, 'this')}"

    def tableproperties_sql(self, node: nodes.TableProperties) -> str:
        return f"TBLPROPERTIES ({self.expressions(node, flat=True)})"

    def nonuniquekey_sql(self, node: nodes.NonUniqueKey) -> str:
        return f"NON UNIQUE PRIMARY KEY ({self.expressions(node, flat=True)})"

    def nonuniquekeyconstraint_sql(self, node: nodes.NonUniqueKeyConstraint) -> str:
        return "NON UNIQUE PRIMARY KEY"

    def immutableconstraint_sql(self, node: nodes.ImmutableConstraint) -> str:
        return "IMMUTABLE"

    def blocksizeconstraint_sql(self, node: nodes.BlockSizeConstraint) -> str:
        return f"BLOCK_SIZE {self.sql(node, 'this')}"

    def version_sql(self, expression: exp.Version) -> str:
        time = expression.expression
        if isinstance(time, exp.Tuple):
            word = "AND" if expression.text("kind") == "BETWEEN" else "TO"
            times = f" {word} ".join(self.sql(part) for part in time.expressions)
        else:
            times = self.sql(time)
        return f"FOR SYSTEM_TIME {expression.text('kind')} {times}"

    def currenttimestamp_sql(self, expression: exp.CurrentTimestamp) -> str:
        return "CURRENT_TIMESTAMP"

    def encodingconstraint_sql(self, node: nodes.EncodingConstraint) -> str:
        return f"ENCODING {self.sql(node, 'this')}"

    def compressionconstraint_sql(self, node: nodes.CompressionConstraint) -> str:
        return f"COMPRESSION {self.sql(node, 'this')}"

    def parameter_sql(self, expression: exp.Parameter) -> str:
        return f"${self.sql(expression, 'this')}"
