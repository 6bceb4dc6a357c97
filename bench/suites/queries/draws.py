"""Random columns in NumPy and Arrow: skewed ranks, identifiers, texts made of words.

Every generator draws in pieces of `PIECE` rows with a seed of the suite and the piece's number, so that the same rows
come out each time, and the first rows of a table do not depend on its size unless a cardinality does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PIECE: Final = 1 << 18
"""Rows of a record batch; a power of two, so that a piece is a few row groups."""
_SYLLABLES: Final = tuple(re.findall("..", "babebikokulalelomaminanenopapirarerisasetatetovavozazo"))
_CYRILLIC: Final = tuple(re.findall("..", "бавегодажиколалимаминанепопарареросаситатетохущаше"))


def pieces(rows: int) -> Iterator[tuple[int, int, int]]:
    """Number, first row and row count of each piece."""
    for number, first in enumerate(range(0, rows, PIECE)):
        yield number, first, min(PIECE, rows - first)


def generator(seed: int, piece: int) -> np.random.Generator:
    """The random numbers of a piece."""
    return np.random.default_rng([seed, piece])


def zipf(rng: np.random.Generator, values: int, count: int, skew: float = 1.0) -> np.ndarray:
    """Ranks below `values` with a frequency like 1 / rank ** skew, int64, shape (count,).

    The inverse of the continuous distribution: no table of `values` probabilities, and no rejected draws.

    Examples
    --------
    >>> ranks = zipf(np.random.default_rng(1), 1000, 10_000)
    >>> int(ranks.min()), int(ranks.max()) < 1000, int((ranks == 0).sum()) > 500
    (0, True, True)
    """
    uniform = rng.random(count)
    if skew == 1.0:
        ranks = np.power(values + 1.0, uniform)
    else:
        power = 1.0 - skew
        ranks = np.power(uniform * ((values + 1.0) ** power - 1.0) + 1.0, 1.0 / power)
    return np.minimum(ranks.astype(np.int64) - 1, values - 1)


def identifiers(ranks: np.ndarray, salt: int, bits: int = 62) -> np.ndarray:
    """Identifiers for ranks, int64, uniform over `bits` bits, by splitmix64; distinct for 62 bits.

    >>> identifiers(np.array([0, 1]), 7, 32).tolist()
    [1041825958, 271253035]
    """
    mixed = ranks.astype(np.uint64) + np.uint64((salt * 0x9E3779B97F4A7C15 + 0x1234567) & 0xFFFFFFFFFFFFFFFF)
    with np.errstate(over="ignore"):
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(64 - bits)).astype(np.int64)


def words(count: int, seed: int, cyrillic: bool = False) -> pa.Array:
    """Made-up words of two to four syllables, Latin or Cyrillic; deterministic, mostly distinct."""
    rng = np.random.default_rng([seed, count])
    syllables = pa.array(_CYRILLIC if cyrillic else _SYLLABLES)
    parts = [syllables.take(pa.array(rng.integers(0, len(syllables), count))) for _ in range(4)]
    lengths = rng.integers(2, 5, count)
    kept = [part if n < 2 else pc.if_else(pa.array(lengths > n), part, "") for n, part in enumerate(parts)]
    return pc.binary_join_element_wise(*kept, "")


def joined(*parts: pa.Array | str, separator: str = "") -> pa.Array:
    """Texts joined row by row; a part that is a text is the same in each row."""
    return pc.binary_join_element_wise(*parts, separator)


def by_rank(ranks: np.ndarray, text: Callable[[np.ndarray], pa.Array]) -> pa.Array:
    """`text` of each rank; called once with the distinct ranks, so that the work is that of the distinct texts."""
    distinct, places = np.unique(ranks, return_inverse=True)
    return text(distinct).take(pa.array(places))


def phrase(ranks: np.ndarray, vocabulary: pa.Array, salt: int, most: int = 4) -> pa.Array:
    """One to `most` words for each rank, chosen by hashes of the rank."""
    lengths = identifiers(ranks, salt) % most
    parts: list[pa.Array] = []
    for place in range(most):
        part = vocabulary.take(pa.array(identifiers(ranks, salt + 1 + place) % len(vocabulary)))
        parts.append(pc.if_else(pa.array(lengths >= place), joined(" ", part), "") if place else part)
    return joined(*parts)


def number_texts(numbers: np.ndarray) -> pa.Array:
    """Integers as texts."""
    return pc.cast(pa.array(numbers), pa.string())


def decimals(units: np.ndarray, precision: int, scale: int) -> pa.Array:
    """Integers of the smallest unit as decimals: their little-endian 128 bits are Arrow's."""
    words_ = np.zeros((len(units), 2), np.int64)
    words_[:, 0], words_[:, 1] = units, units >> 63
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(units), [None, pa.py_buffer(words_)])


def record_batch(schema: pa.Schema, columns: dict[str, pa.Array | np.ndarray]) -> pa.RecordBatch:
    """A record batch of `schema`; NumPy columns are converted to its types."""
    arrays = [
        column.cast(field.type) if isinstance(column, pa.Array) else pa.array(column).cast(field.type)
        for field, column in ((field, columns[field.name]) for field in schema)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
