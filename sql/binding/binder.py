"""Binding: converts the syntax tree of one statement to a bound statement, with every name resolved and every type
known."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from ...model.clock import wall_time
from ...model.lazy_dataclass import dataclass
from ...model.store import Timestamp
from ...model.types import TIMESTAMP
from ..bound import (
    Explain,
    SelectStatement,
    Statement,
)
from ..deep_stack import deeply, on_deep_stack
from ..deferred_parameters import NOW, Decision, Key, deferred
from ..expressions import Expr, Literal
from ..files import FileCatalog
from ..placeholders import Given, Parameters, match_parameters
from ..session_facts import UNKNOWN_SESSION, SessionFacts
from ..syntax import nodes
from ..syntax.complexity import too_complex
from ..syntax.parser import ParsedStatement
from .clauses.external_files import refuse_unreadable
from .clauses.query import bind_query
from .context import Catalog, Context
from .expressions import aggregates, expressions, subqueries, windows
from .scope import Scope


@dataclass(frozen=True, slots=True)
class DeferredStatement:
    """A bound statement with `DeferredParameter`s, the decisions made for their samples, and the sample of `now()`."""

    statement: Statement
    decisions: tuple[Decision, ...]
    now: Literal


HANDLERS = {
    **expressions.HANDLERS,
    **aggregates.HANDLERS,
    **subqueries.HANDLERS,
    **windows.HANDLERS,
}


def bind(
    parsed: ParsedStatement,
    catalog: Catalog,
    parameters: Parameters | None = None,
    files: FileCatalog | None = None,
    session: SessionFacts = UNKNOWN_SESSION,
) -> Statement:
    """Bind one parsed statement.

    Parameters
    ----------
    parsed : ParsedStatement
        What `parser.parse` gave.
    catalog : Catalog
        Where tables are looked up: any `model.store.Store`.
    parameters : sequence or mapping, optional
        Python values for the statement's `?` or `$n` placeholders (a sequence) or `:name` ones (a mapping).
    files : FileCatalog, optional
        Where external files are looked up; without it there are none.
    session : SessionFacts
        What functions such as `current_user` return.

    Raises
    ------
    StatementError
        Of the specific class, with the position: `UnknownTable`, `UnknownColumn`, `TypeMismatch`, `GroupingError`, ...
    NotSupportedError
        For syntax that nyala parses but does not support; the message names it.
    DataError
        If a literal is not a valid value of the type that its context requires.
    InterfaceError
        If the parameters do not match the placeholders.
    """
    return bind_given(parsed, catalog, match_parameters(parsed, parameters), files, session=session).statement


@dataclass(frozen=True, slots=True)
class Binding:
    """A bound statement.

    Attributes
    ----------
    statement : Statement
    is_lasting : bool
        True if it is the same at any time: it has no parameters, and depends neither on its time nor on files.
    """

    statement: Statement
    is_lasting: bool


def bind_given(
    parsed: ParsedStatement,
    catalog: Catalog,
    given: Given,
    files: FileCatalog | None = None,
    now: Timestamp | None = None,
    session: SessionFacts = UNKNOWN_SESSION,
) -> Binding:
    """`bind` with values already matched with their placeholders, as of a time (None: the catalog's)."""
    literals = {place: given.literals[key] for place, key in given.places.items()}

    def bound() -> Binding:
        context = Context(parsed.text, catalog, literals, bind_query, HANDLERS, files=files, session=session)
        context.set_now(now)
        return Binding(_bind(parsed, context), not (literals or context.momentary))

    try:
        return on_deep_stack(bound) if parsed.deep else deeply(bound)
    except RecursionError:
        raise too_complex(parsed.text) from None


def bind_deferred(
    parsed: ParsedStatement, catalog: Catalog, given: Given, now: Timestamp, session: SessionFacts = UNKNOWN_SESSION
) -> DeferredStatement | None:
    """Binds one parsed statement for later values; returns None if the result is valid for this execution only.

    Raises as `bind` does, and also wherever a value must be known: then `bind_given` may still succeed.
    """
    decisions: list[Decision] = []
    values: dict[Key, Expr] = {
        key: literal if literal.value is None else deferred(key, index, literal, decisions)
        for index, (key, literal) in enumerate(given.literals.items())
    }
    parameters = {place: values[key] for place, key in given.places.items()}
    moment = Literal(TIMESTAMP, False, wall_time(now))
    context = Context(parsed.text, catalog, parameters, bind_query, HANDLERS, session=session)
    context.deferred_now = deferred(NOW, NOW, moment, decisions)
    statement = _bind(parsed, context)
    return None if context.momentary else DeferredStatement(statement, tuple(decisions), moment)


def _bind(parsed: ParsedStatement, context: Context) -> Statement:
    with context.at(parsed.tree):
        statement = _statement(parsed.tree, context)
    refuse_unreadable(context)
    return statement


def _statement(tree: Any, context: Context) -> Statement:
    if isinstance(tree, exp.Query | exp.Values):
        locks = tree.args.get("locks")
        if not locks:
            query = bind_query(tree, Scope(), context)
            return SelectStatement(query, settings=tuple(context.settings))
        from .transactions import with_locks

        context.locking = tree
        return with_locks(locks, bind_query(tree, Scope(), context), context)
    if isinstance(tree, nodes.Explain):
        analyze, verbose = bool(tree.args.get("analyze")), bool(tree.args.get("verbose"))
        as_json = tree.args.get("format") == "json"
        return Explain(_statement(tree.this, context), analyze, verbose, as_json)
    from .other_statements import bind_other  # a process that only reads needs none of their modules

    return bind_other(tree, context)
