"""Expressions over batches: compiled once per operator into closures, run once per batch.

    compile(expr) ──► Evaluation(batch) -> Vector

An expression over one column is evaluated per distinct value if the column's encoding allows that:

- `Dict`: over the dictionary, once for each dictionary (all batches of one file share theirs), and the result is
  gathered by the codes. LIKE over six million rows with 150 distinct texts costs 150 matches.
- `Narrow`: over the codes' domain if that is smaller than the batch and the expression costs more than a look-up
  (`EXTRACT(year ...)`, CASE, division).

Errors belong to rows: an expression must not fail because of a dictionary entry that no row has. If it fails over the
dictionary, it is evaluated again over the rows themselves. For the same reason a CASE evaluates such a branch only for
its rows, and a filter evaluates such a condition only after the others (`Condition`).
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ...errors import DataError, InternalError, NotSupportedError
from ...model import arrow_functions as pc
from ...model.arrow_arrays import fill_nulls, numpy_array
from ...model.lazy_dataclass import dataclass
from ...model.types import BIGINT, BOOLEAN, DataType, Kind
from ...model.vectors.vector import Array, Batch, Const, Dict, Flat, LazyColumn, Narrow, Text, Vector
from ...sql.expressions import Call, Case, Cast, Column, Expr, InValues, Literal, walk
from ...sql.functions import OPERATIONS
from ..kernels import boolean, conditional
from ..kernels.cast import cast
from ..kernels.compare import compare, is_in
from .expression_costs import cost, fails_rarely, is_fallible, summarized

Evaluation: TypeAlias = Callable[[Batch], Vector]
"""The value of an expression for every row of a batch."""

_ALWAYS_TABLED = 1024
"""Number of dictionary entries up to which an expression is evaluated over the dictionary even for a batch of a few
rows: more batches will follow, and the call itself costs more than its rows."""
_TABLES_KEPT = 64
"""Number of dictionaries whose results are cached per expression; a table has one dictionary per column and rowset."""


class Compiler:
    """Compiles expressions over rows whose columns are `columns`, in order."""

    def __init__(self, columns: Sequence[Column]):
        self._positions: Mapping[int, int] = {column.id: i for i, column in enumerate(columns)}

    def compile(self, expr: Expr) -> Evaluation:
        """Compile the expression to a closure over batches."""
        said = summarized(expr)
        if isinstance(said.column, Column) and not isinstance(expr, Column) and not said.volatile:
            inner = _Plain({said.column.id: 0}).compile(expr)
            return _PerValue(inner, self._position(said.column), said.cost > 2, said.fallible)
        return _Plain(self._positions, self).compile(expr)

    def compile_all(self, exprs: Sequence[Expr]) -> list[Evaluation]:
        """Compile several expressions."""
        return [self.compile(expr) for expr in exprs]

    def condition(self, predicate: Expr) -> Condition:
        """Compile a predicate to a filter."""
        return Condition(self, predicate)

    def _position(self, column: Column) -> int:
        try:
            return self._positions[column.id]
        except KeyError:
            known = ", ".join(f"#{i}" for i in self._positions)
            raise InternalError(f"column {column.name}#{column.id} is not among the input's: {known}") from None


class _Plain:
    """Compiles node by node. With an `outer` compiler, subexpressions over a single column are passed back to it."""

    def __init__(self, positions: Mapping[int, int], outer: Compiler | None = None):
        self._positions = positions
        self._outer = outer

    def compile(self, expr: Expr) -> Evaluation:
        if isinstance(expr, Column):
            return self._column(expr)
        if isinstance(expr, Literal):
            type_, value = expr.type, expr.value
            return lambda batch: Const(type_, value, batch.length)
        if isinstance(expr, Call):
            return self._call(expr)
        if isinstance(expr, Cast):
            return self._cast(expr)
        if isinstance(expr, Case):
            return self._case(expr)
        if isinstance(expr, InValues):
            return self._in(expr)
        raise InternalError(f"a {type(expr).__name__} reached the executor; the planner should have replaced it")

    def _sub(self, expr: Expr) -> Evaluation:
        if self._outer is not None:
            return self._outer.compile(expr)
        return self.compile(expr)

    def _column(self, expr: Column) -> Evaluation:
        if self._outer is not None:
            position = self._outer._position(expr)
        else:
            position = self._positions[expr.id]
        return lambda batch: batch.column(position)

    def _call(self, expr: Call) -> Evaluation:
        if expr.function in ("and", "or"):
            return self._junction(expr)
        if expr.function in ("eq", "ne", "lt", "le", "gt", "ge"):
            left, right = (self._sub(_uncast(arg)) for arg in expr.args)
            return _folded(lambda a, b: compare(expr.function, a, b), [left, right], BOOLEAN)
        if expr.function == "coalesce" and any(map(is_fallible, expr.args[1:])):
            return self._coalesce(expr)
        from . import kernel_table  # the kernels of all functions: over twenty modules

        generator = kernel_table.GENERATORS.get(expr.function)
        if generator is not None:
            return lambda batch: generator(batch.length)
        kernel = kernel_table.KERNELS.get(expr.function)
        if kernel is None:
            raise InternalError(f"there is no kernel for the function {expr.function}")
        type_ = expr.type
        strict_type = None if OPERATIONS[expr.function].skips_nulls else type_
        return _folded(lambda *args: kernel(type_, *args), [self._sub(arg) for arg in expr.args], strict_type)

    def _coalesce(self, expr: Call) -> Evaluation:
        type_, candidates = expr.type, [self._sub(arg) for arg in expr.args]
        return lambda batch: _first_present(type_, candidates, batch)

    def _junction(self, expr: Call) -> Evaluation:
        ordered = sorted(expr.args, key=lambda arg: (is_fallible(arg), cost(arg)))
        parts = [(self._sub(arg), is_fallible(arg)) for arg in ordered]
        is_and = expr.function == "and"
        combine = boolean.conjunction if is_and else boolean.disjunction

        def run(batch: Batch) -> Vector:
            result: Vector = Const(BOOLEAN, is_and, batch.length)
            for part, fallible in parts:
                if fallible and not isinstance(result, Const):
                    result = _where_open(result, part, batch, is_and)
                else:
                    result = combine(result, part(batch))
                if isinstance(result, Const) and result.value is (not is_and):
                    break
            return result

        return run

    def _cast(self, expr: Cast) -> Evaluation:
        type_, safe = expr.type, expr.safe
        return _folded(lambda arg: cast(type_, arg, safe), [self._sub(expr.arg)], type_)

    def _in(self, expr: InValues) -> Evaluation:
        arg = self._sub(expr.arg)
        if all(isinstance(item, Literal) and _same(item, expr.arg) for item in expr.items):
            items = tuple(item.value for item in expr.items if isinstance(item, Literal))
            return lambda batch: is_in(arg(batch), items)
        # An item that may fail for a row is compared only if no other item has matched.
        ordered = sorted(expr.items, key=is_fallible)
        others = [self._sub(item) for item in ordered]

        def equality(other: Evaluation) -> Evaluation:
            return lambda batch: compare("eq", arg(batch), other(batch))

        tests = [(o, equality(o) if is_fallible(item) else None) for o, item in zip(others, ordered, strict=True)]

        def run(batch: Batch) -> Vector:
            value = arg(batch)
            result: Vector = Const(BOOLEAN, False, batch.length)
            for other, equals in tests:
                if equals is not None and not isinstance(result, Const):
                    result = _where_open(result, equals, batch, False)
                else:
                    result = boolean.disjunction(result, compare("eq", value, other(batch)))
            return result

        return run

    def _case(self, expr: Case) -> Evaluation:
        conditions = [self._sub(condition) for condition, _ in expr.branches]
        values = [value for _, value in expr.branches] + [expr.default]
        candidates = [self._sub(value) for value in values]
        eager = not any(is_fallible(e) for pair in expr.branches for e in pair) and not is_fallible(expr.default)
        type_ = expr.type
        if eager:
            return lambda batch: _case_eager(type_, conditions, candidates, batch)
        if fails_rarely(expr):
            return _HopefulCase(type_, conditions, candidates)
        return lambda batch: _case_by_rows(type_, conditions, candidates, batch)


def _uncast(expr: Expr) -> Expr:
    """Remove a cast that only adds digits to an exact number: comparisons align scales themselves, without overflow."""
    if isinstance(expr, Call) and expr.function == "saturated":
        return expr.args[0]
    if isinstance(expr, Cast) and not expr.safe and expr.type.is_decimal:
        source = expr.arg.type
        if (source.is_decimal or source.is_integer) and (source.scale or 0) <= (expr.type.scale or 0):
            return expr.arg
    return expr


def _same(item: Literal, arg: Expr) -> bool:
    return item.value is None or (item.type.kind is arg.type.kind and item.type.scale == arg.type.scale)


def _folded(kernel: Callable[..., Vector], parts: list[Evaluation], strict: DataType | None = None) -> Evaluation:
    """Apply the kernel to its arguments; if all are constant, over one row.

    `strict` is the result's type for a function that is NULL if any argument is: then kernels need not handle NULL
    constants.
    """

    def run(batch: Batch) -> Vector:
        args = [part(batch) for part in parts]
        if strict is not None and any(isinstance(arg, Const) and arg.value is None for arg in args):
            return Const(strict, None, batch.length)
        if batch.length > 1 and args and all(isinstance(arg, Const) for arg in args):
            one = kernel(*(Const(a.type, a.value, 1) for a in args))  # type: ignore[attr-defined]
            return Const(one.type, physical(one), batch.length)
        return kernel(*args)

    return run


def physical(vector: Vector) -> Any:
    """Return the physical value of a vector of one row, None for NULL."""
    if isinstance(vector, Const):
        return vector.value
    if vector.has_nulls:
        return None
    value = vector.values()[0]
    return value.item() if isinstance(value, np.generic) else value


def _where_open(result: Vector, part: Evaluation, batch: Batch, is_and: bool) -> Vector:
    """AND or OR with a part that may fail: it is evaluated only for the rows that the other parts leave undecided."""
    decided = boolean.falsehoods(result) if is_and else boolean.truths(result)
    assert not isinstance(decided, bool)
    rows = np.flatnonzero(~decided)
    if not len(rows):
        return result
    found = part(batch.select(rows))
    values = np.full(batch.length, not is_and)
    values[rows] = found.values()
    validity = None
    if found.validity is not None:
        validity = np.ones(batch.length, np.bool_)
        validity[rows] = found.validity
    combine = boolean.conjunction if is_and else boolean.disjunction
    return combine(result, Flat(BOOLEAN, values, validity))


def _case_eager(type_: Any, conditions: list[Evaluation], candidates: list[Evaluation], batch: Batch) -> Vector:
    last = len(conditions)
    choice: Array = np.full(batch.length, last, np.uint8 if last < 256 else np.intp)
    for index in range(last - 1, -1, -1):
        true = boolean.truths(conditions[index](batch))
        if isinstance(true, bool):
            if true:
                choice[:] = index
        else:
            choice = conditional.blended(true, np.array(index, choice.dtype), choice)
    if last == 1:
        return conditional.pick(type_, choice, [candidate(batch) for candidate in candidates])
    used = [i for i in range(len(candidates)) if (choice == i).any()] or [0]
    if len(used) < len(candidates):
        renumbered = np.zeros(len(candidates), choice.dtype)
        renumbered[used] = np.arange(len(used))
        choice = renumbered.take(choice)
    return conditional.pick(type_, choice, [candidates[i](batch) for i in used])


class _HopefulCase:
    """A CASE that may fail for numbers near the limits of their type alone: computed for all rows until one fails, as
    this is faster than selecting the rows of each branch, and by rows from then on."""

    def __init__(self, type_: DataType, conditions: list[Evaluation], candidates: list[Evaluation]):
        self._type = type_
        self._conditions = conditions
        self._candidates = candidates
        self._has_failed = False

    def __call__(self, batch: Batch) -> Vector:
        if not self._has_failed:
            try:
                return _case_eager(self._type, self._conditions, self._candidates, batch)
            except DataError:
                self._has_failed = True
        return _case_by_rows(self._type, self._conditions, self._candidates, batch)


def _first_present(type_: Any, candidates: list[Evaluation], batch: Batch) -> Vector:
    """COALESCE: every value is evaluated only for the rows in which those before it are NULL."""
    rest = np.arange(batch.length)
    parts: list[Vector] = []
    places: list[Array] = []
    for number, candidate in enumerate(candidates, 1):
        part = candidate(batch.select(rest))
        validity = part.validity
        found = np.ones(len(rest), np.bool_) if validity is None or number == len(candidates) else validity
        if found.any() or not len(rest):
            parts.append(part.filter(found))
            places.append(rest[found])
        rest = rest[~found]
        if not len(rest):
            break
    return _assembled(type_, parts, places, batch.length)


def _case_by_rows(type_: Any, conditions: list[Evaluation], candidates: list[Evaluation], batch: Batch) -> Vector:
    """CASE: every condition and value is evaluated only for the rows that reach it."""
    rest = np.arange(batch.length)
    parts: list[Vector] = []
    places: list[Array] = []
    for condition, candidate in zip(conditions, candidates):
        true = boolean.truths(condition(batch.select(rest)))
        mask = np.broadcast_to(true, len(rest))
        rows = rest[mask]
        if len(rows):
            parts.append(candidate(batch.select(rows)))
            places.append(rows)
        rest = rest[~mask]
    if len(rest) or not parts:
        parts.append(candidates[-1](batch.select(rest)))
        places.append(rest)
    return _assembled(type_, parts, places, batch.length)


def _assembled(type_: Any, parts: list[Vector], places: list[Array], length: int) -> Vector:
    choice = np.empty(length, np.intp)
    row = np.zeros(length, np.intp)
    spread: list[Vector] = []
    for index, (part, rows) in enumerate(zip(parts, places)):
        choice[rows] = index
        row[:] = 0
        row[rows] = np.arange(len(rows))
        spread.append(part if isinstance(part, Const) else part.take(row))
    spread = [Const(type_, p.value, length) if isinstance(p, Const) else p for p in spread]
    return conditional.pick(type_, choice, spread)


# ---- shared subexpressions ------------------------------------------------------------------------------------------


class SharedWork:
    """Several expressions over one input, with equal parts computed once per batch.

    A part that occurs twice becomes a column behind the batch's own, computed at first access. Parts that may fail for
    a row stay in place, so that they are computed only for the rows that need them; whole expressions are needed for
    all rows.
    """

    def __init__(self, columns: Sequence[Column], exprs: Sequence[Expr]):
        self._counts = Counter(node for expr in exprs for node in _inner_nodes(expr))
        for expr, count in Counter(expr for expr in exprs if _is_shareable(expr)).items():
            if count > 1 and not isinstance(expr, Column):
                self._counts[expr] = count
        self._columns = list(columns)
        self._prelude: list[Evaluation] = []
        self._numbers: dict[Expr, Column] = {}
        rewritten = [self._rewrite(expr) for expr in exprs]
        self.evaluations = Compiler(self._columns).compile_all(rewritten)

    def _rewrite(self, expr: Expr) -> Expr:
        if self._counts.get(expr, 0) < 2:
            return expr.map_children(self._rewrite)
        if expr not in self._numbers:
            inner = expr.map_children(self._rewrite)
            self._prelude.append(Compiler(self._columns).compile(inner))
            column = Column(expr.type, expr.nullable, -len(self._prelude), "shared")
            self._columns.append(column)
            self._numbers[expr] = column
        return self._numbers[expr]

    def prepare(self, batch: Batch) -> Batch:
        """Return the batch with the shared parts behind its columns, as the evaluations expect it."""
        for evaluation in self._prelude:
            batch = batch.append([LazyColumn(_Computed(evaluation, batch))])
        return batch


class _Computed:
    def __init__(self, evaluation: Evaluation, batch: Batch):
        self._evaluation = evaluation
        self._batch = batch

    def __call__(self, rows: Array | None) -> Vector:
        if rows is None:
            return self._evaluation(self._batch)
        return self._evaluation(self._batch.select(rows))


def _inner_nodes(expr: Expr) -> list[Expr]:
    return [n for n in walk(expr) if not isinstance(n, Column | Literal) and _is_shareable(n) and not is_fallible(n)]


def _is_shareable(expr: Expr) -> bool:
    said = summarized(expr)
    return said.column is not None and not said.volatile


# ---- per distinct value ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Table:
    """An expression's value per code; behind the last of the `codes` is its value for a NULL.

    `dictionary` is the dictionary of the codes, None for numbers.
    """

    dictionary: weakref.ref[pa.Array] | None
    results: Vector
    codes: int

    def is_of(self, dictionary: pa.Array) -> bool:
        """True for the identical dictionary; its `id` alone may have been reused by a later one."""
        return self.dictionary is not None and self.dictionary() is dictionary

    @property
    def is_dead(self) -> bool:
        return self.dictionary is not None and self.dictionary() is None


class _PerValue:
    """An expression over one column, evaluated per distinct value if the column's encoding allows that."""

    def __init__(self, inner: Evaluation, position: int, costly: bool, fallible: bool):
        self._inner = inner
        self._position = position
        self._costly = costly
        self._fallible = fallible
        self._tables: dict[Any, _Table] = {}

    def __call__(self, batch: Batch) -> Vector:
        vector = batch.column(self._position)
        if isinstance(vector, Dict) and len(vector):
            table = self._dictionary(vector)
            if table is not None:
                return _gathered(table, vector.codes, vector.validity)
        elif isinstance(vector, Narrow) and self._costly:
            low, high = vector.bounds()
            if high - low + 1 <= len(vector) // 2 and vector.type.kind is not Kind.BOOLEAN:
                table = self._domain(vector, high - low + 1)
                if table is not None:
                    return _gathered(table, vector.codes, vector.validity)
        elif isinstance(vector, Const) and len(vector) > 1:
            one = self._inner(Batch([Const(vector.type, vector.value, 1)], 1))
            return Const(one.type, physical(one), len(vector))
        return self._inner(Batch([vector], batch.length))

    def _dictionary(self, vector: Dict) -> _Table | None:
        key = id(vector.dictionary)
        table = self._tables.get(key)
        if table is None or not table.is_of(vector.dictionary):
            if len(vector.dictionary) > max(2 * len(vector), _ALWAYS_TABLED):
                return None
            entries = pa.concat_arrays([vector.dictionary, pa.nulls(1, vector.dictionary.type)])
            dictionary = weakref.ref(vector.dictionary)
            table = self._evaluated(key, dictionary, Text(vector.type, entries), len(vector.dictionary))
        return table

    def _domain(self, vector: Narrow, size: int) -> _Table | None:
        key = (vector.base, size)
        table = self._tables.get(key)
        if table is None:
            codes = np.zeros(size + 1, np.uint32)
            codes[:size] = np.arange(size, dtype=np.uint32)
            validity = np.ones(size + 1, np.bool_)
            validity[size] = False
            domain = Narrow(vector.type, codes, vector.base, validity, size - 1)
            table = self._evaluated(key, None, domain, size)
        return table

    def _evaluated(
        self, key: Any, dictionary: weakref.ref[pa.Array] | None, domain: Vector, size: int
    ) -> _Table | None:
        try:
            results = self._inner(Batch([domain], size + 1))
        except (DataError, NotSupportedError):
            if not self._fallible:
                raise
            return None  # the failing value may occur in no row
        table = _Table(dictionary, _compact(results, size), size)
        # Other threads add tables at the same time, hence the copies.
        for other in [other for other, known in self._tables.copy().items() if known.is_dead]:
            self._tables.pop(other, None)
        if len(self._tables) >= _TABLES_KEPT:
            self._tables.pop(next(iter(self._tables.copy())), None)
        self._tables[key] = table
        return table


def _compact(results: Vector, size: int) -> Vector:
    """Convert the results to the form that is cheapest to gather: texts as a dictionary, validity only if a value is
    NULL."""
    if isinstance(results, Text):
        encoded = pc.dictionary_encode(results.array)
        codes = numpy_array(fill_nulls(encoded.indices, 0))
        narrow = codes.astype(np.uint8 if len(encoded.dictionary) <= 256 else np.uint32)
        return Dict(results.type, narrow, encoded.dictionary, results.validity, ordered=False)
    return results


def _gathered(table: _Table, codes: Array, validity: Array | None) -> Vector:
    results = table.results
    if validity is not None:
        return results.take(np.where(validity, codes, table.codes).astype(np.intp, copy=False))
    if isinstance(results, Const):
        return Const(results.type, results.value, len(codes))
    if results.validity is not None and bool(results.validity[: table.codes].all()):
        results = _without_validity(results)
    return results.take(codes)


def _without_validity(vector: Vector) -> Vector:
    if isinstance(vector, Flat):
        return Flat(vector.type, vector.values(), None, vector.low, vector.high)
    if isinstance(vector, Narrow):
        return Narrow(vector.type, vector.codes, vector.base, None, vector.top)
    if isinstance(vector, Dict):
        return Dict(vector.type, vector.codes, vector.dictionary, None, vector.ordered)
    return vector


# ---- filters ---------------------------------------------------------------------------------------------------------


class Condition:
    """A conjunction as a filter: cheap parts first, and a part that may fail only over the remaining rows."""

    def __init__(self, compiler: Compiler, predicate: Expr):
        parts = _flattened(predicate)
        parts.sort(key=lambda part: (is_fallible(part), cost(part)))
        self._parts = [(compiler.compile(part), is_fallible(part) or cost(part) > 3) for part in parts]

    def select(self, batch: Batch) -> Batch:
        """Return the rows for which every part is true."""
        pending: Array | None = None
        for part, wants_few in self._parts:
            if pending is not None and (wants_few or np.count_nonzero(pending) * 4 < len(pending)):
                batch, pending = batch.select(pending), None
            if not batch.length:
                return batch
            true = boolean.truths(part(batch))
            if isinstance(true, bool):
                if not true:
                    return batch.select(np.empty(0, np.intp))
            else:
                pending = true if pending is None else pending & true
        if pending is None or bool(pending.all()):
            return batch
        return batch.select(pending)

    def rows(self, batch: Batch) -> Array:
        """Numbers of those rows, ascending."""
        numbers = Flat(BIGINT, np.arange(batch.length))
        kept = self.select(batch.append([numbers]))
        return kept.column(kept.width - 1).values()


def _flattened(predicate: Expr) -> list[Expr]:
    if isinstance(predicate, Call) and predicate.function == "and":
        return [part for arg in predicate.args for part in _flattened(arg)]
    return [predicate]
