"""Writes syntax trees as nyala's SQL; see `dialect.py` for the grammar."""

from __future__ import annotations

from sqlglot import exp, generator

from . import nodes
from .generator_access import AccessGenerator
from .generator_session import SessionGenerator
from .generator_transactions import TransactionGenerator
from .generator_writes import WriteGenerator
from .grammar import operators as grammar_operators


class NyalaGenerator(WriteGenerator, AccessGenerator, TransactionGenerator, SessionGenerator, generator.Generator):
    """The inverse of `grammar.statements.NyalaParser`."""

    NULL_ORDERING_SUPPORTED = True
    SUPPORTS_WINDOW_EXCLUDE = True
    SUPPORTS_BETWEEN_FLAGS = True
    # sqlglot finds a method by its node's name only for its own nodes, so ours are listed.
    TRANSFORMS = {
        **generator.Generator.TRANSFORMS,
        **grammar_operators.TRANSFORMS,
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

    def array_sql(self, node: exp.Array) -> str:
        items = self.expressions(node, flat=True)
        is_query = len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Query)
        return f"ARRAY({items})" if is_query else f"ARRAY[{items}]"

    def createtable_sql(self, node: nodes.CreateTable) -> str:
        exists = "IF NOT EXISTS " if node.args.get("exists") else ""
        body = f" ({self.expressions(node, flat=True)})" if node.expressions else ""
        clauses = "".join(f" {self.sql(clause)}" for clause in node.args.get("clauses") or [])
        query = f" AS {self.sql(node, 'query')}" if node.args.get("query") else ""
        like = f" LIKE {self.sql(node, 'like')}" if node.args.get("like") else ""
        temporary = "TEMPORARY " if node.args.get("temporary") else ""
        return f"CREATE {temporary}TABLE {exists}{self.sql(node, 'this')}{body}{like}{clauses}{query}"

    def droptable_sql(self, node: nodes.DropTable) -> str:
        exists = "IF EXISTS " if node.args.get("exists") else ""
        cascade = " CASCADE" if node.args.get("cascade") else ""
        return f"DROP TABLE {exists}{self.sql(node, 'this')}{cascade}"

    def createview_sql(self, node: nodes.CreateView) -> str:
        replace = "OR REPLACE " if node.args.get("replace") else ""
        replace += "TEMPORARY " if node.args.get("temporary") else ""
        exists = "IF NOT EXISTS " if node.args.get("exists") else ""
        columns = f" ({self.expressions(node, flat=True)})" if node.expressions else ""
        return f"CREATE {replace}VIEW {exists}{self.sql(node, 'this')}{columns} AS {self.sql(node, 'query')}"

    def dropview_sql(self, node: nodes.DropView) -> str:
        exists = "IF EXISTS " if node.args.get("exists") else ""
        cascade = " CASCADE" if node.args.get("cascade") else ""
        return f"DROP VIEW {exists}{self.sql(node, 'this')}{cascade}"

    def alterview_sql(self, node: nodes.AlterView) -> str:
        exists = "IF EXISTS " if node.args.get("exists") else ""
        return f"ALTER VIEW {exists}{self.sql(node, 'this')} {self.expressions(node, flat=True)}"

    def createschema_sql(self, node: nodes.CreateSchema) -> str:
        exists = "IF NOT EXISTS " if node.args.get("exists") else ""
        owner = f" AUTHORIZATION {self.sql(node, 'owner')}" if node.args.get("owner") is not None else ""
        return f"CREATE SCHEMA {exists}{self.sql(node, 'this')}{owner}"

    def dropschema_sql(self, node: nodes.DropSchema) -> str:
        exists = "IF EXISTS " if node.args.get("exists") else ""
        cascade = " CASCADE" if node.args.get("cascade") else ""
        return f"DROP SCHEMA {exists}{self.sql(node, 'this')}{cascade}"

    def alterschema_sql(self, node: nodes.AlterSchema) -> str:
        return f"ALTER SCHEMA {self.sql(node, 'this')} {self.expressions(node, flat=True)}"

    def setschema_sql(self, node: nodes.SetSchema) -> str:
        return f"SET SCHEMA {self.sql(node, 'this')}"

    def showschemas_sql(self, node: nodes.ShowSchemas) -> str:
        return "SHOW SCHEMAS" + (f" LIKE {self.sql(node, 'this')}" if node.this else "")

    def analyzetable_sql(self, node: nodes.AnalyzeTable) -> str:
        return f"ANALYZE {self.sql(node, 'this')}".rstrip()

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

    def showtables_sql(self, node: nodes.ShowTables) -> str:
        return "SHOW TABLES" + (f" LIKE {self.sql(node, 'this')}" if node.this else "")

    def showfunctions_sql(self, node: nodes.ShowFunctions) -> str:
        return "SHOW FUNCTIONS" + (f" LIKE {self.sql(node, 'this')}" if node.this else "")

    def showviews_sql(self, node: nodes.ShowViews) -> str:
        return "SHOW VIEWS" + (f" LIKE {self.sql(node, 'this')}" if node.this else "")

    def showstats_sql(self, node: nodes.ShowStats) -> str:
        return f"SHOW STATS FOR {self.sql(node, 'this')}"

    def showcreatetable_sql(self, node: nodes.ShowCreateTable) -> str:
        return f"SHOW CREATE {'VIEW' if node.args.get('view') else 'TABLE'} {self.sql(node, 'this')}"

    def showpartitions_sql(self, node: nodes.ShowPartitions) -> str:
        return f"SHOW PARTITIONS {self.sql(node, 'this')}"

    def describetable_sql(self, node: nodes.DescribeTable) -> str:
        return f"DESCRIBE {self.sql(node, 'this')}"

    def explain_sql(self, node: nodes.Explain) -> str:
        words = [word.upper() for word in ("analyze", "verbose") if node.args.get(word)]
        if node.args.get("format"):
            words = [f"({', '.join([*words, 'FORMAT JSON'])})"]
        return " ".join(["EXPLAIN", *words, self.sql(node, "this")])

    def distributeby_sql(self, node: nodes.DistributeBy) -> str:
        return f"DISTRIBUTE BY {self.expressions(node, flat=True)}"

    def hashpartition_sql(self, node: nodes.HashPartition) -> str:
        columns = f" ({self.expressions(node, flat=True)})" if node.expressions else ""
        return f"HASH{columns} INTO {self.sql(node, 'buckets')} BUCKETS"

    def rangepartition_sql(self, node: nodes.RangePartition) -> str:
        parts = [f"RANGE BOUND {self.sql(bound)}" for bound in node.args.get("bounds") or []]
        body = [", ".join(parts) or self.expressions(node, key="partitions", flat=True)]
        if node.args.get("splits"):
            body.append(f"SPLIT ROWS ({self.expressions(node, key='splits', flat=True)})")
        return f"RANGE ({self.expressions(node, flat=True)}) ({' '.join(part for part in body if part)})"

    def rangebounds_sql(self, node: nodes.RangeBounds) -> str:
        hashed = "".join(f" {self.sql(rule)}" for rule in node.expressions)
        if node.args.get("value"):
            return f"PARTITION VALUE = {self.sql(node, 'value')}{hashed}"
        lower = f"{self.sql(node, 'lower')} <= " if node.args.get("lower") else ""
        upper = f" < {self.sql(node, 'upper')}" if node.args.get("upper") else ""
        return f"PARTITION {lower}VALUES{upper}{hashed}"

    def setclause_sql(self, node: nodes.SetClause) -> str:
        return f"SET {self.sql(node, 'this')}"

    def replicas_sql(self, node: nodes.Replicas) -> str:
        return f"REPLICAS {self.sql(node, 'this')}"

    def tablecomment_sql(self, node: nodes.TableComment) -> str:
        return f"COMMENT {self.sql(node, 'this')}"

    def tablequota_sql(self, node: nodes.TableQuota) -> str:
        return f"QUOTA {self.sql(node, 'this') or 'NONE'}"

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

    def localtimestamp_sql(self, expression: exp.Localtimestamp) -> str:
        return "LOCALTIMESTAMP"

    def currenttimestamp_sql(self, expression: exp.CurrentTimestamp) -> str:
        return "CURRENT_TIMESTAMP"

    def encodingconstraint_sql(self, node: nodes.EncodingConstraint) -> str:
        return f"ENCODING {self.sql(node, 'this')}"

    def compressionconstraint_sql(self, node: nodes.CompressionConstraint) -> str:
        return f"COMPRESSION {self.sql(node, 'this')}"

    def parameter_sql(self, expression: exp.Parameter) -> str:
        return f"${self.sql(expression, 'this')}"
