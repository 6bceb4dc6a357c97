"""New values of a row that are computed from its current ones: `UPDATE t SET n = n + 1 WHERE key = value`.

Imported for the first such statement, with the kernels of all expressions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ...model.types import DataType
from ...model.vectors.vector import Batch, Const, Vector
from ...planner.algebra.trees import rewrite
from ...sql.deferred_parameters import DeferredParameter
from ...sql.expressions import Column, Expr
from ..expressions.evaluate import Compiler, Evaluation
from ..expressions.scalars import Unsure, scalar_of


class Computed:
    """New values of a row, computed from its current values.

    Parameters
    ----------
    exprs : sequence of Expr
        New values; their types are those of the columns that they are for.
    columns : mapping of int to str
        Names of the table's columns, by their numbers.

    Attributes
    ----------
    names : tuple of str
        Columns that must be read.
    values : tuple of DeferredParameter
        Parameters whose values must be passed.
    """

    def __init__(self, exprs: Sequence[Expr], columns: Mapping[int, str]):
        read: dict[int, Column] = {}
        parameters: dict[tuple[Any, ...], tuple[DeferredParameter, Column]] = {}

        def as_column(part: Expr) -> Expr:
            if isinstance(part, Column):
                read[part.id] = part
            if not isinstance(part, DeferredParameter):
                return part
            number = -1 - len(parameters)
            key = part.key, part.path, part.type
            return parameters.setdefault(key, (part, Column(part.type, part.nullable, number, "")))[1]

        exprs = [rewrite(expr, as_column) for expr in exprs]
        inputs = [*read.values(), *(column for _, column in parameters.values())]
        self.names = tuple(columns[number] for number in read)
        self.values = tuple(parameter for parameter, _ in parameters.values())
        self._types: tuple[DataType, ...] = tuple(column.type for column in inputs)
        self._results: tuple[DataType, ...] = tuple(expr.type for expr in exprs)
        places = {column.id: place for place, column in enumerate(inputs)}
        scalars = [scalar_of(expr, places) for expr in exprs]
        self._scalars = None if None in scalars else scalars
        self._inputs, self._exprs = inputs, exprs
        self._evaluations: list[Evaluation] | None = (
            None if self._scalars else Compiler(self._inputs).compile_all(self._exprs)
        )

    def of(self, cells: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """Return the new values for a row with these cells of `names`, and these `values`."""
        given = [
            value if value is None or type_.is_integer else type_.to_physical(value)
            for type_, value in zip(self._types, (*cells, *values), strict=True)
        ]
        if self._scalars is not None:
            with suppress(Unsure):
                return [
                    type_.to_python(scalar(given))  # type: ignore[misc]
                    for type_, scalar in zip(self._results, self._scalars)
                ]
        if self._evaluations is None:
            self._evaluations = Compiler(self._inputs).compile_all(self._exprs)
        row = Batch([Const(type_, value, 1) for type_, value in zip(self._types, given)], 1)
        return [_python_value(evaluate(row)) for evaluate in self._evaluations]


def _python_value(vector: Vector) -> Any:
    if isinstance(vector, Const):
        return None if vector.value is None else vector.type.to_python(vector.value)
    return vector.to_arrow()[0].as_py()
