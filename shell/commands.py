"""Backslash commands: `COMMANDS` is the list that the help prints and that completion offers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ..errors import InterfaceError, did_you_mean
from ..storage.schema import PartitionSchema, RangePartition, Table, View
from ..storage.types import BIGINT, STRING, DataType
from . import formats

if TYPE_CHECKING:
    from .runner import Shell


@dataclass(frozen=True, slots=True)
class Command:
    """`usage` starts with the command's name; `run` gets the words behind it."""

    name: str
    usage: str
    text: str
    run: Callable[[Shell, Sequence[str]], None]


def run(shell: Shell, line: str) -> None:
    """Run one backslash command; `InterfaceError` where there is none of that name."""
    name, *words = line.rstrip(";").split()
    for command in COMMANDS:
        if name == command.name:
            command.run(shell, words)
            return
    hint = did_you_mean(name, [command.name for command in COMMANDS])
    raise InterfaceError(f"there is no command {name}{hint} (\\? explains them)")


def _quit(shell: Shell, words: Sequence[str]) -> None:
    raise EOFError


def _help(shell: Shell, words: Sequence[str]) -> None:
    width = max(len(command.usage) for command in COMMANDS)
    for command in COMMANDS:
        print(f"  {command.usage:<{width}}  {command.text}", file=shell.out)
    print("Everything else is SQL and ends with a semicolon.", file=shell.out)


def _tables(shell: Shell, words: Sequence[str]) -> None:
    store = shell.connection.store
    tables = store.tables()
    if not tables:
        print("There are no tables.", file=shell.out)
        return
    rows = [store.statistics(table).row_count for table in tables]
    tablets = [store.tablet_count(table) for table in tables]
    columns: list[tuple[str, DataType]] = [("table", STRING), ("rows", BIGINT), ("tablets", BIGINT)]
    batch = pa.record_batch([[table.name for table in tables], rows, tablets], [name for name, _ in columns])
    shell.show(columns, batch)


def _views(shell: Shell, words: Sequence[str]) -> None:
    views = shell.connection.store.views()
    if not views:
        print("There are no views.", file=shell.out)
        return
    batch = pa.record_batch(
        [[view.name for view in views], [", ".join(view.columns) for view in views]], ["view", "columns"]
    )
    shell.show([("view", STRING), ("columns", STRING)], batch)


def _describe(shell: Shell, words: Sequence[str]) -> None:
    store = shell.connection.store
    if not words:
        _tables(shell, words)
        if store.views():
            _views(shell, words)
        return
    view = store.view(words[0].lower())
    if view is not None:
        _describe_view(shell, view)
        return
    table = store.table(words[0].lower())
    schema = table.schema
    names = ("column", "type", "null", "default", "encoding", "compression", "comment")
    lines = [
        (
            column.name,
            str(column.type),
            "" if column.nullable else "NOT NULL",
            "" if column.default is None else str(column.type.to_python(column.default)),
            column.encoding.value,
            column.compression.value,
            column.comment,
        )
        for column in schema.columns
    ]
    shown = [i for i in range(len(names)) if i < 3 or any(line[i] not in ("", "AUTO") for line in lines)]
    columns = [(names[i], STRING) for i in shown]
    batch = pa.record_batch([pa.array([line[i] for line in lines]) for i in shown], [names[i] for i in shown])
    shell.show(columns, batch)
    for line in describe_partitions(table):
        print(line, file=shell.out)


def _describe_view(shell: Shell, view: View) -> None:
    """A view's columns with their types, and its query."""
    name = view.name.replace('"', '""')
    with shell.connection.cursor() as cursor:
        rows = cursor.execute(f'DESCRIBE "{name}"').fetchall()
    names = ("column", "type", "null")
    lines = [(column, type_, "" if nullable else "NOT NULL") for column, type_, nullable in rows]
    batch = pa.record_batch([pa.array([line[i] for line in lines]) for i in range(3)], list(names))
    shell.show([(name, STRING) for name in names], batch)
    print(f"AS {view.text}", file=shell.out)


def describe_partitions(table: Table) -> list[str]:
    """Key and partition rules, one line each, as CREATE TABLE says them."""
    lines = [f"PRIMARY KEY ({', '.join(column.name for column in table.schema.key)})"]
    partitions: PartitionSchema = table.partitions
    lines += [f"HASH ({', '.join(rule.columns)}) INTO {rule.buckets} BUCKETS" for rule in partitions.hash_rules]
    if partitions.range_rule is not None:
        rule = partitions.range_rule
        lines.append(f"RANGE ({', '.join(rule.columns)})")
        types = [table.schema.column(name).type for name in rule.columns]
        lines += [f"  {_range(partition, types)}" for partition in rule.partitions]
    return lines


def _range(partition: RangePartition, types: Sequence[DataType]) -> str:
    def bound(values: tuple[object, ...]) -> str:
        texts = [f"'{t.to_python(v)}'" if not t.is_numeric else str(t.to_python(v)) for v, t in zip(values, types)]
        return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"

    lower = "" if partition.lower is None else f"{bound(partition.lower)} <= "
    upper = "" if partition.upper is None else f" < {bound(partition.upper)}"
    own = "".join(f" HASH ({', '.join(r.columns)}) INTO {r.buckets} BUCKETS" for r in partition.hash_rules or ())
    return f"PARTITION {lower}VALUES{upper}{own}"


def _timing(shell: Shell, words: Sequence[str]) -> None:
    shell.timing = _switch(words, shell.timing)
    print(f"Timing is {'on' if shell.timing else 'off'}.", file=shell.out)


def _switch(words: Sequence[str], now: bool) -> bool:
    if not words:
        return not now
    if words[0].lower() not in ("on", "off"):
        raise InterfaceError(f"{words[0]}: say on or off")
    return words[0].lower() == "on"


def _format(shell: Shell, words: Sequence[str]) -> None:
    if not words or words[0] not in formats.FORMATS:
        raise InterfaceError(f"\\format takes one of {', '.join(formats.FORMATS)}; it is {shell.format} now")
    shell.format = words[0]


COMMANDS: Final = (
    Command("\\d", "\\d [NAME]", "describe a table or view; without a name, list them", _describe),
    Command("\\dt", "\\dt", "list the tables", _tables),
    Command("\\dv", "\\dv", "list the views", _views),
    Command("\\format", "\\format NAME", f"print results as {', '.join(formats.FORMATS)}", _format),
    Command("\\timing", "\\timing [on|off]", "print how long each statement takes", _timing),
    Command("\\?", "\\?", "this list", _help),
    Command("\\q", "\\q", "leave (so does Ctrl-D)", _quit),
)
