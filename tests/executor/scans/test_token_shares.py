"""Each token is read by exactly one morsel of each execution, for any order of morsels and threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st
from nyala.executor.scans.prefetch import TokenShares
from nyala.model.vectors.vector import Batch

FEW_ROWS = 10
SIZES = st.lists(st.lists(st.integers(0, 12), max_size=3), min_size=1, max_size=8)
"""The rows of each batch of each token."""


class Tokens:
    """Tokens whose batches have these rows; the ones that were read, in order."""

    def __init__(self, sizes: list[list[int]]):
        self.sizes = sizes
        self.shares = TokenShares(len(sizes), FEW_ROWS)

    def run(self, morsel: int) -> tuple[list[int], int]:
        """The tokens that a morsel reads, and the rows that come."""
        tokens: list[int] = []

        def read(token: int) -> Iterator[Batch]:
            tokens.append(token)
            return iter([Batch([], rows) for rows in self.sizes[token]])

        return tokens, sum(batch.length for batch in self.shares.read(morsel, read))


@given(SIZES, st.randoms(use_true_random=False))
def test_each_token_is_read_once_and_by_the_same_morsel_again(sizes: list[list[int]], rng) -> None:  # type: ignore[no-untyped-def]
    tokens = Tokens(sizes)
    order = list(range(len(sizes)))
    rng.shuffle(order)
    first = {morsel: tokens.run(morsel) for morsel in order}
    assert sorted(token for found, _ in first.values() for token in found) == list(range(len(sizes)))
    for morsel, (found, rows) in first.items():
        assert found == list(range(morsel, morsel + len(found)))
        assert rows == sum(sum(sizes[token]) for token in found)
        assert sum(sum(sizes[token]) for token in found[:-1]) < FEW_ROWS
    rng.shuffle(order)
    assert {morsel: tokens.run(morsel) for morsel in order} == first


def test_a_morsel_in_turn_takes_what_makes_few_rows_more() -> None:
    tokens = Tokens([[1], [2, 3], [3], [4], [20], [1], [], [1]])
    assert [tokens.run(morsel)[0] for morsel in range(8)] == [[0, 1, 2, 3], [], [], [], [4], [5, 6, 7], [], []]


def test_a_morsel_that_is_left_early_has_taken_no_more_than_it_began() -> None:
    tokens = Tokens([[1], [2], [3]])
    begun = tokens.shares.read(0, lambda token: iter([Batch([], 1)]))
    assert next(begun).length == 1
    begun.close()  # type: ignore[attr-defined]
    assert [tokens.run(morsel)[0] for morsel in (1, 2)] == [[1, 2], []]


def test_threads_share_the_tokens() -> None:
    for _ in range(50):
        tokens = Tokens([[1]] * 30)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda morsel, tokens=tokens: tokens.run(morsel)[0], range(30)))
        assert sorted(token for taken in found for token in taken) == list(range(30))
