"""The compiled sort orders rows as `np.lexsort` does, whatever bits of the codes differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nyala.executor.kernels.groups import hash_groups
from nyala.executor.kernels.groups.row_order import radix_order, sort_by_columns

Columns = list[np.ndarray]


def columns_of(seed: int, length: int) -> Columns:
    """One to three columns of codes; in each, other bits are constant."""
    rng = np.random.default_rng(seed)
    columns: Columns = []
    for _ in range(int(rng.integers(1, 4))):
        codes = rng.integers(0, 2**64 - 1, length, np.uint64, endpoint=True)
        mask = int(rng.integers(0, 2**64 - 1, None, np.uint64, endpoint=True))
        narrow = ((1 << int(rng.integers(1, 65))) - 1) << int(rng.integers(0, 40))
        codes &= np.uint64([mask, narrow % 2**64, 2**64 - 1, 1 << 63, 0][int(rng.integers(0, 5))])
        columns.append(np.sort(codes) if rng.random() < 0.2 else codes)
    return columns


@pytest.mark.parametrize("length", [0, 1, 2, 1000, 5000])
@pytest.mark.parametrize("seed", range(12))
def test_rows_are_in_the_order_of_lexsort(kernels: Any, seed: int, length: int) -> None:
    columns = columns_of(seed, length)
    order = np.empty(length, np.intp)
    kernels.sort_rows(tuple(columns), order)
    assert np.array_equal(order, np.lexsort(columns[::-1]))


def test_many_rows_are_sorted_by_narrower_digits(kernels: Any) -> None:
    columns = [*columns_of(1, 300_000), np.random.default_rng(2).random(300_000).view(np.uint64)]
    order = np.empty(300_000, np.intp)
    kernels.sort_rows(tuple(columns), order)
    assert np.array_equal(order, np.lexsort(columns[::-1]))


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize("length", [1, 3, 2000])
@pytest.mark.parametrize("seed", range(8))
def test_columns_are_packed_where_they_fit(
    kernels: Any, monkeypatch: pytest.MonkeyPatch, seed: int, length: int, is_compiled: bool
) -> None:
    monkeypatch.setattr(hash_groups, "compiled", kernels if is_compiled else None)
    rng = np.random.default_rng(seed)
    sizes = [int(size) for size in rng.choice([2, 300, 1 << 31, 1 << 40, 1 << 64], 4)]
    columns = [(rng.integers(0, size - 1, length, np.uint64, endpoint=True), size) for size in sizes]
    columns += columns[:1]  # of which some rows are equal in all
    columns[1] = columns[1][0] % np.uint64(3), columns[1][1]
    order, ordered = sort_by_columns(columns)
    rows = np.arange(length) if order is None else order
    assert np.array_equal(rows, np.lexsort([codes for codes, _ in columns][::-1]))
    same = np.logical_and.reduce([codes[rows][1:] == codes[rows][:-1] for codes, _ in columns])
    assert np.array_equal(np.logical_and.reduce([codes[1:] == codes[:-1] for codes in ordered]), same)
    again, _ = sort_by_columns([(codes[rows], size) for codes, size in columns])
    assert again is None


def test_few_rows_and_no_kernel_are_left_to_numpy(kernels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_groups, "compiled", kernels)
    assert radix_order([np.zeros(1023, np.uint8)]) is None
    assert radix_order([np.zeros(1024, np.uint8)]) is not None
    monkeypatch.setattr(hash_groups, "compiled", None)
    assert radix_order([np.zeros(1024, np.uint8)]) is None
    with pytest.raises(ValueError, match="order: at least 9"):
        kernels.sort_rows((np.zeros(9, np.uint64),), np.zeros(8, np.intp))
