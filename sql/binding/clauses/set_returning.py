"""Rewrites functions that return rows into `generate_series`, as syntax: the only one that planner and executor have.

    SELECT a, unnest(b) FROM t  ─►  SELECT a, b[n] FROM t, LATERAL generate_series(1, cardinality(b)) AS s(n)
    FROM unnest(b) AS u(x)      ─►  FROM LATERAL (SELECT b[n] AS x FROM generate_series(1, cardinality(b)) AS s(n)) AS u
    FROM unnest(a, b) AS u(x, y) ─► the same with two columns, and the rows of the longer array
    FROM lower('A') AS f        ─►  FROM LATERAL (SELECT lower('A') AS f) AS f

Several such functions in one select list go row by row together, and those with fewer rows give NULL at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sqlglot import exp

from ....errors import NotSupportedError, StatementError
from ... import functions
from ...syntax import nodes
from ..context import name_of

SERIES: Final = "generate_series"
KEYWORDS: Final = "pg_get_keywords"
_EXPANDING: Final = ("unnest", "generate_subscripts", "_pg_expandarray", SERIES)
_ROW: Final = "rows of functions"
"""The relation of the rows of a select list's functions; a name that no statement has."""
_PLACE: Final = "place"


def called_name(node: Any) -> str:
    """The name of a called function, folded; empty for any other node."""
    if isinstance(node, exp.Unnest):
        return "unnest"
    if not isinstance(node, exp.Anonymous):
        return ""
    return name_of(node.this) if isinstance(node.this, exp.Identifier) else str(node.this).lower()


# ---- in a select list ------------------------------------------------------------------------------------------------


def with_rows(node: exp.Select) -> exp.Select:
    """The SELECT with the functions of its list that return rows moved to FROM; itself if it has none."""
    known = node.meta.get(_ROW)
    if known is not None:
        return known
    if not any(True for item in node.expressions for _ in _calls(item)):
        return node
    # It is kept with the original, so that its nodes live as long: a binding knows nodes by their `id`.
    tree = node.meta[_ROW] = node.copy()
    tree.parent = node.parent
    _keep_parameters(node, tree)
    copies = [call for item in tree.expressions for call in _calls(item)]
    if any(called_name(call) == "unnest" and len(call.expressions) > 1 for call in copies):
        raise StatementError("unnest of several arrays is possible in FROM alone")
    lengths = [_length(call) for call in copies]
    longest = lengths[0] if len(lengths) == 1 else _function("greatest", *lengths)
    if len(copies) == 1 and called_name(copies[0]) == SERIES:
        series = _function(SERIES, *copies[0].expressions)
    else:
        series = _function(SERIES, exp.Literal.number(1), longest)
    for call in copies:
        value = _place() if len(copies) == 1 and called_name(call) == SERIES else _value(call)
        if call.parent is tree:
            value = exp.Alias(this=value, alias=exp.to_identifier(called_name(call)))
        call.replace(value)
    rows = _rows(series)
    if tree.args.get("from_") is None:
        tree.set("from_", exp.From(this=rows))
    else:
        join = exp.Join(this=exp.Lateral(this=series, alias=rows.args["alias"]))
        join.meta["comma"] = True
        tree.append("joins", join)
    return tree


def _calls(node: Any) -> Iterator[Any]:
    """The calls in an item of a select list that return rows; those of subqueries belong to the subqueries."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if called_name(node) in _EXPANDING:
            yield node
        elif not isinstance(node, exp.Query):
            waiting.extend(node.iter_expressions(reverse=True))


def _keep_parameters(before: Any, after: Any) -> None:
    """Parameters are known by their nodes: the copy has those of the original."""
    for original, copied in zip(list(_parameters(before)), list(_parameters(after)), strict=True):
        parent = original.parent
        copied.replace(original)
        original.parent = parent


def _parameters(tree: Any) -> Iterator[Any]:
    return tree.find_all(exp.Placeholder, exp.Parameter)  # type: ignore[no-any-return]


def _length(call: Any) -> Any:
    name = called_name(call)
    if name == SERIES:
        start, stop, *step = call.expressions
        if step:
            raise NotSupportedError("generate_series with a step is not supported beside other functions of rows")
        return exp.Add(this=exp.Sub(this=stop, expression=start), expression=exp.Literal.number(1))
    return _function("cardinality", call.expressions[0])


def _value(call: Any) -> Any:
    """The value of a call in the row `place`."""
    name, array = called_name(call), call.expressions[0]
    if name == SERIES:
        return exp.Sub(this=exp.Add(this=array, expression=_place()), expression=exp.Literal.number(1))
    return _element(array) if name == "unnest" else nodes.ArrayRow(this=array, expression=_place(), kind=name)


def _element(array: Any) -> Any:
    """The element of an array in the row `place`, of the type that a cast of the array names: arrays of some types are
    kept as texts."""
    element = nodes.ArrayRow(this=array, expression=_place(), kind="unnest")
    if not (isinstance(array, exp.Cast) and array.to.is_type(exp.DataType.Type.ARRAY) and array.to.expressions):
        return element
    return exp.Cast(this=element, to=array.to.expressions[0].copy())


# ---- in FROM ---------------------------------------------------------------------------------------------------------


def from_function(node: Any, call: Any, alias: Any, ordinality: Any = None) -> exp.Lateral | None:
    """A function of FROM as a LATERAL query; None if it is `generate_series` itself, or unknown."""
    name = called_name(call)
    if name == KEYWORDS:
        call, alias = None, alias or exp.TableAlias(this=exp.to_identifier(name))
        return exp.Lateral(this=_keywords(), alias=alias)
    if name == SERIES or (name not in _EXPANDING and not _is_scalar(name)):
        return None
    columns = list(alias.args.get("columns") or []) if alias is not None else []
    relation = alias.this if alias is not None and alias.this is not None else exp.to_identifier(name)
    first = columns[0] if columns else relation
    if name not in _EXPANDING:
        query = exp.Select(expressions=[exp.Alias(this=call, alias=first.copy())])
    else:
        items = [(_value(call), first)]
        if len(call.expressions) > 1 and name == "unnest":
            items = _columns_of_arrays(call, columns)
        if name == "_pg_expandarray":
            items = [
                (nodes.ArrayRow(this=call.expressions[0], expression=_place(), kind="unnest"), exp.to_identifier("x"))
            ]
            ordinality = exp.to_identifier("n")
        if ordinality:
            items.append(
                (_place(), ordinality if isinstance(ordinality, exp.Identifier) else exp.to_identifier("ordinality"))
            )
        selected = [exp.Alias(this=value, alias=label.copy()) for value, label in items]
        series = _function(SERIES, exp.Literal.number(1), _rows_of_arrays(call) if name == "unnest" else _length(call))
        query = exp.Select(expressions=selected, from_=exp.From(this=_rows(series)))
    found = exp.Lateral(this=query, alias=exp.TableAlias(this=relation.copy()))
    found.parent = node.parent
    return found


def _columns_of_arrays(call: Any, names: list[Any]) -> list[tuple[Any, Any]]:
    """The values of `unnest` of several arrays in the row `place`, with their names; the shorter ones have NULLs."""
    labels = [*names, *[exp.to_identifier("unnest")] * len(call.expressions)]
    arrays = zip(call.expressions, labels, strict=False)
    return [(_element(array), label) for array, label in arrays]


def _rows_of_arrays(call: Any) -> Any:
    lengths = [_function("cardinality", array) for array in call.expressions]
    return lengths[0] if len(lengths) == 1 else _function("greatest", *lengths)


def _keywords() -> exp.Select:
    """The words of SQL, with PostgreSQL's columns."""
    from ..tables.show_create import WORDS

    rows = [exp.Tuple(expressions=[exp.Literal.string(word)]) for word in sorted(filter(str.isidentifier, WORDS))]
    words = exp.Values(
        expressions=rows, alias=exp.TableAlias(this=exp.to_identifier("k"), columns=[exp.to_identifier("word")])
    )
    texts = {"catcode": "R", "catdesc": "reserved"}
    labels = [exp.Alias(this=exp.Literal.string(text), alias=exp.to_identifier(name)) for name, text in texts.items()]
    return exp.Select(expressions=[exp.column("word"), *labels], from_=exp.From(this=words))


def _is_scalar(name: str) -> bool:
    function = functions.REGISTRY.get(name)
    return function is not None and function.kind == "scalar"


# ---- parts -----------------------------------------------------------------------------------------------------------


def _function(name: str, *args: Any) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(args))


def _place() -> exp.Column:
    return exp.column(_PLACE, table=_ROW, quoted=True)


def _rows(series: exp.Anonymous) -> exp.Table:
    alias = exp.TableAlias(this=exp.to_identifier(_ROW, quoted=True), columns=[exp.to_identifier(_PLACE)])
    return exp.Table(this=series, alias=alias)
