"""Deferred parameters: a statement bound once, for all bind values that lead to the same bound statement.

Binding depends on the values of constants: `k = ?` compares integers or decimals depending on whether the value is a
whole number, and a quoted text takes the type that its context requires. So a statement is bound with *sample* values.
Each `DeferredParameter` keeps the sample and the conversions applied to it (`path`); the outcome of each conversion is
recorded as a `Decision`:

    WHERE k = ?   with 7, k BIGINT      fit(7, BIGINT) gave a BIGINT
    VALUES (?)    with '2.5', DECIMAL   assign('2.5', DECIMAL(9,2)) gave a DECIMAL(9,2)

Other values may use the bound statement if each decision has the same outcome for them (`DeferredValues.of`).
Otherwise the statement is bound again with these values: another variant, or an error with its position.

`now()` is also such a parameter, with the number `NOW`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from ..errors import Error
from ..model.lazy_dataclass import dataclass
from ..model.types import NULL, DataType
from .expressions import Expr, Literal, Parameter

Key: TypeAlias = int | str
"""Identifies a value: 0-based position, or name; `NOW` for the statement's time."""
NOW = -1

Conversion: TypeAlias = "Callable[[Literal, DataType], Expr | None]"


@dataclass(frozen=True, slots=True)
class Step:
    """One conversion of a value: the function (`coercion.fit` or an assignment) and the target type."""

    convert: Conversion
    type: DataType


Path: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a step on a value: the resulting type; None if the result was not a constant."""

    key: Key
    path: Path
    step: Step
    outcome: DataType | None


@dataclass(frozen=True, slots=True, eq=False)
class DeferredParameter(Parameter):
    """A deferred parameter with a sample of its values.

    Attributes
    ----------
    sample : Literal
        The value with which the statement is bound, after the conversions of `path`.
    path : tuple of Step
        The conversions applied so far.
    settled : bool
        True if the context alone determines the type: any value that takes the same path gives the same bound
        statement, whatever its type was.
    decisions : list of Decision
        Shared by all parameters of the statement.
    """

    sample: Literal = field(default_factory=lambda: Literal(NULL, True), compare=False, repr=False)
    path: Path = field(default=(), compare=False, repr=False)
    settled: bool = field(default=False, compare=False, repr=False)
    decisions: list[Decision] = field(default_factory=list, compare=False, repr=False)

    @property
    def key(self) -> Key:
        """The position or name of the bind value."""
        return self.index if self.name is None else self.name

    def converted(self, convert: Conversion, type_: DataType, settled: bool = False) -> DeferredParameter | None:
        """The parameter after a conversion; None if the sample does not convert to a constant of the type."""
        found = convert(self.sample, type_)
        value = found if isinstance(found, Literal) else None
        step = Step(convert, type_)
        self.decisions.append(Decision(self.key, self.path, step, None if value is None else value.type))
        if value is None:
            return None
        path = (*self.path, step)
        return DeferredParameter(value.type, False, self.index, self.name, value, path, settled, self.decisions)


def deferred(key: Key, index: int, sample: Literal, decisions: list[Decision]) -> DeferredParameter:
    """A parameter as the binder first creates it."""
    name = key if isinstance(key, str) else None
    return DeferredParameter(sample.type, False, index, name, sample, (), False, decisions)


class DeferredValues:
    """Conditions under which other bind values may replace the samples.

    Parameters
    ----------
    samples : mapping of Key to Literal
        One per value; NULL is bound as it is, so another value must be NULL as well.
    decisions : sequence of Decision
    settled : collection of Key
        The parameters all of whose uses are settled; the values of the others must have the type of the sample.
    """

    def __init__(self, samples: Mapping[Key, Literal], decisions: Sequence[Decision], settled: frozenset[Key]):
        self.settled = frozenset(k for k in settled if samples[k].value is not None)
        self.refusing = frozenset(decision.key for decision in decisions if decision.outcome is None)
        self._types = {key: None if literal.value is None else literal.type for key, literal in samples.items()}
        self.decisions = tuple(dict.fromkeys(decisions))

    def of(self, given: Mapping[Key, Literal]) -> dict[tuple[Key, Path], Literal] | None:
        """The values at every step of their conversion; None if the statement has to be bound again for them."""
        found: dict[tuple[Key, Path], Literal] = {}
        for key, type_ in self._types.items():
            literal = given[key]
            if (literal.value is None) != (type_ is None):
                return None
            if type_ is not None and literal.type != type_ and key not in self.settled:
                return None
            found[key, ()] = literal
        for decision in self.decisions:
            try:
                value = decision.step.convert(found[decision.key, decision.path], decision.step.type)
            except Error:
                return None
            if not isinstance(value, Literal):
                if decision.outcome is not None:
                    return None
            elif value.type != decision.outcome:
                return None
            else:
                found[decision.key, (*decision.path, decision.step)] = value
        return found
