"""Generates keys and field values as YCSB 0.17's package `generator` does, a whole array at once.

Rows are numbered from 0 in the order of their insertion; a chooser draws such numbers:

    Zipfian            number i in proportion to 1 / (i + 1) ** 0.99: 0 is the most popular, its neighbours come next
    ScrambledZipfian   the same, but the popular ones are scattered among the rows; YCSB's "zipfian"
    Uniform            each equally often

YCSB's "latest" is Zipfian too: the drawn number is the distance behind the newest row (`operations`).

The text of a key is "user" and a hash of the row's number. So rows reach a store in random order of their keys, and
rows with consecutive numbers are far apart.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from .model import FIELD_BYTES

Numbers: TypeAlias = npt.NDArray[np.int64]

THETA: Final = 0.99
"""Exponent of all zipfian distributions: the frequency of the i-th most popular row is in proportion to 1 / i **
THETA."""
SCRAMBLED_ITEMS: Final = 10_000_000_000
SCRAMBLED_ZETA: Final = 26.46902820178302
"""`zeta(SCRAMBLED_ITEMS)`, the constant in YCSB's source."""

_FNV_OFFSET: Final = np.uint64(0xCBF29CE484222325)
_FNV_PRIME: Final = np.uint64(1099511628211)
_ZETA_STEP: Final = 1 << 20
_SIX_BITS: Final = np.uint64(0x3F3F3F3F3F3F3F3F)
_FROM_SPACE: Final = np.uint64(0x2020202020202020)
_NEWLINE: Final = ord("\n")


class Chooser(Protocol):
    """A distribution over rows."""

    def draw(self, rng: np.random.Generator, count: int) -> Numbers:
        """`count` independent numbers of rows, shape (count,)."""


class Uniform:
    """Each of the numbers from 0 to `items` - 1 equally often."""

    def __init__(self, items: int) -> None:
        self.items = items

    def draw(self, rng: np.random.Generator, count: int) -> Numbers:
        return rng.integers(0, self.items, count, dtype=np.int64)


class Zipfian:
    """Numbers from 0 to `items` - 1, small ones most often.

    The method is that of Gray et al., Quickly Generating Billion-Record Synthetic Databases (SIGMOD 1994): exact for
    the two most popular items. For all others it is a power of the random number, which makes items three to ten up to
    a fifth too popular. So a draw costs the same for any number of items.

    Parameters
    ----------
    items : int
        At least 1.
    sum_of_weights : float, optional
        `zeta(items)`, if it is known.
    """

    def __init__(self, items: int, sum_of_weights: float | None = None) -> None:
        self.items = items
        self._zeta = zeta(items) if sum_of_weights is None else sum_of_weights
        # With one or two items the exact part covers everything, and the formula would divide by zero.
        self._eta = (1 - (2 / items) ** (1 - THETA)) / (1 - zeta(2) / self._zeta) if items > 2 else 0.0

    def draw(self, rng: np.random.Generator, count: int) -> Numbers:
        random = rng.random(count)
        drawn = (self.items * (self._eta * random - self._eta + 1) ** (1 / (1 - THETA))).astype(np.int64)
        # A random number just below 1 may be rounded to one item too many.
        np.minimum(drawn, self.items - 1, out=drawn)
        weight = random * self._zeta
        drawn[weight < zeta(2)] = 1
        drawn[weight < 1] = 0
        return drawn


class ScrambledZipfian:
    """Numbers from 0 to `items` - 1, some far more frequent than others and scattered over the range.

    As in YCSB, a number is drawn from among ten billion and its hash taken modulo `items`. So the most popular row has
    1 / 26.5 of all requests whatever `items` is. A row has the popularity of all numbers that map to it: the tail is
    flatter than that of `Zipfian(items)`.
    """

    def __init__(self, items: int) -> None:
        self.items = items
        self._zipfian = Zipfian(SCRAMBLED_ITEMS, SCRAMBLED_ZETA)

    def draw(self, rng: np.random.Generator, count: int) -> Numbers:
        return hashed(self._zipfian.draw(rng, count)) % self.items


def zeta(items: int) -> float:
    """The sum of 1 / i ** THETA for i from 1 to `items`."""
    total = 0.0
    for first in range(1, items + 1, _ZETA_STEP):
        numbers = np.arange(first, min(first + _ZETA_STEP, items + 1), dtype=np.float64)
        total += float(np.sum(numbers**-THETA))
    return total


def hashed(numbers: Numbers) -> Numbers:
    """FNV-1a of the eight bytes of each number, lowest first, as the absolute value of a signed number.

    That is the result of YCSB's `Utils.hash`: not negative, same shape.
    """
    rest = numbers.astype(np.uint64)
    hashes = np.full(rest.shape, _FNV_OFFSET)
    for _ in range(8):
        hashes ^= rest & np.uint64(0xFF)
        hashes *= _FNV_PRIME
        rest >>= np.uint64(8)
    return np.abs(hashes.view(np.int64))


def key_texts(first: int, count: int) -> list[str]:
    """The keys of the rows numbered `first` to `first + count - 1`, in this order."""
    numbers = np.arange(first, first + count, dtype=np.int64)
    return [f"user{number}" for number in hashed(numbers).tolist()]


def field_values(rng: np.random.Generator, count: int) -> list[str]:
    """`count` values of FIELD_BYTES characters, each drawn uniformly from the 64 ASCII characters from space to "_".

    Like YCSB's they are incompressible by a dictionary or a search for repetitions: only an entropy coder of single
    characters would find that these have six bits each (YCSB's have five and a third).
    """
    if not count:
        return []
    width = FIELD_BYTES + 1
    words = rng.integers(0, 1 << 64, -(-count * width // 8), dtype=np.uint64)
    words &= _SIX_BITS
    words += _FROM_SPACE
    characters = words.view(np.uint8)[: count * width]
    characters[FIELD_BYTES::width] = _NEWLINE
    # One long text that is split: far cheaper than decoding each value.
    return str(characters[:-1].data, "ascii").split("\n")


def generator(*seed: int) -> np.random.Generator:
    """A separate source of random numbers for each sequence of seeds."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed)))
