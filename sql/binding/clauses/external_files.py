"""Binds external files in FROM: `read_parquet('path', ...)`, `read_csv('path', ..., name => value)`, `'path'`.

A column whose type nyala does not support is rejected only if the statement reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from sqlglot import exp

from ....errors import NotSupportedError, OperationalError, StatementError
from ....model.types import STRING
from ...bound import FileRef
from ...expressions import Literal
from ...file_options import FORMATS, READ, check_options, format_of, read_option
from ...files import FileDescription, FileSource
from ...syntax import nodes
from ..context import Context, Frame

READERS = {f"read_{format_}": format_ for format_ in FORMATS}
"""The table functions that read files."""


def is_file(node: Any) -> bool:
    """True if a table node names a file or calls a function that reads one."""
    inner = node.this
    if isinstance(inner, exp.Anonymous):
        return str(inner.name).lower() in READERS
    return isinstance(inner, nodes.FileName)


def bind_file(node: Any, frame: Frame) -> FileRef:
    """The relation of a file in FROM, under the name of its first file."""
    context = frame.context
    source = _called(node.this, frame) if isinstance(node.this, exp.Anonymous) else _named(node.this, context)
    with context.at(node.this):
        if context.files is None:
            raise NotSupportedError("files cannot be read here")
        context.require_superuser("a read of a file of the server")
        try:
            context.momentary.append("file")
            description = context.files.describe(source)
        except OperationalError as error:
            raise context.drawn(error, node.this) from error
    names = _folded(description)
    columns = []
    for name, column in zip(names, description.columns):
        fresh = context.column(name, column.type or STRING, True)
        if column.type is None:
            context.unreadable[fresh.id] = (
                f"column {column.name} of {source.shown} is of type {column.described}, which nyala does not have; "
                "leave it out"
            )
        columns.append(fresh)
    alias = PurePath(source.paths[0]).name.partition(".")[0].lower()
    return FileRef(source, alias, tuple(columns), tuple(c.name for c in description.columns), description)


def _folded(found: FileDescription) -> list[str]:
    """The columns' names in lower case, except names that would become equal."""
    times = Counter(column.name.lower() for column in found.columns)
    return [c.name.lower() if times[c.name.lower()] == 1 else c.name for c in found.columns]


def _named(node: Any, context: Context) -> FileSource:
    path = str(node.this)
    format_ = format_of(path)
    if format_ is None:
        with context.at(node):
            raise StatementError(
                f"the name {path} does not tell the file's format; write read_parquet('{path}') or read_csv('{path}')"
            )
    return FileSource(format_, (path,))


def _called(node: Any, frame: Frame) -> FileSource:
    function = str(node.name).lower()
    format_ = READERS[function]
    paths, options = [], dict[str, Any]()
    for argument in node.expressions:
        with frame.context.at(argument):
            named = _named_argument(argument)
            if named is None:
                if options:
                    raise StatementError(f"the paths of {function} come first, then name => value")
                paths += list(_paths(argument, function, frame))
                continue
            name, value = read_option(named, _plain(argument.expression, frame), format_, READ, function)
            if name in options:
                raise StatementError(f"option {name} is given twice")
            options[name] = value
    if not paths:
        raise StatementError(f"{function} needs the path of a file, in quotes")
    with frame.context.at(node):
        check_options(options, format_, function)
    return FileSource(format_, tuple(paths), tuple(sorted(options.items())))


def _named_argument(node: Any) -> str | None:
    """The name of `name => value` or `name = value`."""
    if isinstance(node, exp.Kwarg):
        return str(node.this.name)
    if isinstance(node, exp.EQ) and isinstance(node.this, exp.Column):
        return str(node.this.name)
    return None


def _paths(node: Any, function: str, frame: Frame) -> Iterator[str]:
    for item in node.expressions if isinstance(node, exp.Array | exp.Tuple) else [node]:
        value = _plain(item, frame)
        if not isinstance(value, str) or not value:
            raise StatementError(f"{function} takes paths in quotes, and options as name => value")
        yield value


def _plain(node: Any, frame: Frame) -> Any:
    """The Python value of a literal or a parameter."""
    value = frame.bind(node)
    if not isinstance(value, Literal):
        raise StatementError("a constant is needed here")
    return None if value.value is None else value.type.to_python(value.value)


def refuse_unreadable(context: Context) -> None:
    """Refuse a statement that reads a column whose type nyala does not have."""
    for number, message in context.unreadable.items():
        if context.mentions.get(number):
            with context.at(context.mentions[number][0]):
                raise NotSupportedError(message)
