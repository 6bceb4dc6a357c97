"""The generators draw from the distributions that YCSB defines."""

import lzma
import zlib

import numpy as np
import pytest
from nyala.bench.ycsb.generators import (
    SCRAMBLED_ITEMS,
    SCRAMBLED_ZETA,
    THETA,
    ScrambledZipfian,
    Uniform,
    Zipfian,
    field_values,
    generator,
    hashed,
    key_texts,
    zeta,
)
from nyala.bench.ycsb.model import FIELD_BYTES, Kind
from nyala.bench.ycsb.workloads import WORKLOADS, with_distribution

DRAWS = 400_000


def shares(chooser):
    """Share of each number in all draws."""
    drawn = chooser.draw(generator(1), DRAWS)
    assert drawn.min() >= 0
    return np.bincount(drawn, minlength=chooser.items) / DRAWS


def zipf(items):
    """The exact probabilities."""
    weights = np.arange(1, items + 1) ** -THETA
    return weights / weights.sum()


@pytest.mark.parametrize("items", [1, 2, 3, 10, 100, 5_000])
def test_zipfian_numbers_follow_the_zipf_distribution(items):
    found, exact = shares(Zipfian(items)), zipf(items)
    assert len(found) == items
    # Gray's formula is exact for the first two, and near to it for the sum of all up to any number.
    np.testing.assert_allclose(found[:2], exact[:2], rtol=0.02)
    np.testing.assert_allclose(np.cumsum(found), np.cumsum(exact), atol=0.02)


def test_a_random_number_next_to_one_stays_among_the_items():
    class Highest:
        def random(self, count):
            return np.full(count, np.nextafter(1.0, 0.0))

    for items in (1, 2, 3, 1_000, 1_234_567):
        assert Zipfian(items).draw(Highest(), 3).tolist() == [items - 1] * 3


def test_the_sum_of_weights():
    assert zeta(1) == 1
    assert zeta(3) == pytest.approx(1 + 2**-0.99 + 3**-0.99)
    # Longer than one step of the sum; the rest up to ten billion is the integral, near enough.
    items = 3_000_001
    rest = (SCRAMBLED_ITEMS ** (1 - THETA) - items ** (1 - THETA)) / (1 - THETA)
    assert zeta(items) + rest == pytest.approx(SCRAMBLED_ZETA, abs=1e-5)


def test_scrambled_numbers_are_as_skewed_but_lie_anywhere():
    items = 10_000
    found = shares(ScrambledZipfian(items))
    assert len(found) == items
    assert found.argmax() == hashed(np.array([0]))[0] % items
    assert found.max() == pytest.approx(1 / SCRAMBLED_ZETA, rel=0.05)
    # Without the few that are requested most, every tenth of the rows has a tenth of the requests.
    rest = np.where(found > 0.001, 0, found).reshape(10, -1).sum(axis=1)
    np.testing.assert_allclose(rest / rest.sum(), 0.1, atol=0.01)
    assert np.sort(found)[-100:].sum() > 0.2


def test_uniform_numbers_pass_a_chi_square_test():
    counts = shares(Uniform(100)) * DRAWS
    chi_square = ((counts - DRAWS / 100) ** 2 / (DRAWS / 100)).sum()
    # 99 degrees of freedom: more than 150 in one of 1,500 seeds, less than 60 in one of 1,000.
    assert 60 < chi_square < 150


def test_hashes_are_those_of_ycsb():
    def reference(number):
        value = 0xCBF29CE484222325
        for octet in number.to_bytes(8, "little"):
            value = (value ^ octet) * 1099511628211 % (1 << 64)
        return abs(value - (1 << 64) if value >= 1 << 63 else value)

    numbers = [0, 1, 255, 256, 999_999, (1 << 62) + 12_345]
    assert hashed(np.array(numbers)).tolist() == [reference(number) for number in numbers]
    # The first two keys of every load with YCSB.
    assert key_texts(0, 2) == ["user6284781860667377211", "user8517097267634966620"]
    assert key_texts(999_999, 1) == [f"user{reference(999_999)}"]
    assert key_texts(5, 0) == []


def test_keys_differ():
    assert len(set(key_texts(0, 200_000))) == 200_000


@pytest.mark.parametrize("count", [0, 1, 7, 8, 1_001])
def test_values_have_their_length_and_printable_characters(count):
    values = field_values(generator(3), count)
    assert len(values) == count
    assert all(len(value) == FIELD_BYTES and value.isascii() and value.isprintable() for value in values)
    assert len(set(values)) == count


def test_values_cannot_be_compressed_below_the_bits_of_their_characters():
    values = field_values(generator(3), 5_000)
    raw = "".join(values).encode()
    assert len(set(raw)) == 64
    assert len(zlib.compress(raw)) > 0.75 * len(raw)
    assert len(lzma.compress(raw)) > 0.75 * len(raw)


def test_workloads_are_those_of_ycsb():
    assert "".join(WORKLOADS) == "ABCDEF"
    for workload in WORKLOADS.values():
        assert sum(workload.shares.values()) == pytest.approx(1)
        assert workload.distribution == ("latest" if workload.name == "D" else "zipfian")
    assert WORKLOADS["B"].shares == {Kind.READ: 0.95, Kind.UPDATE: 0.05}


def test_another_distribution_for_all_but_the_latest():
    uniform = [with_distribution(WORKLOADS[name], "uniform") for name in "ABCD"]
    assert [workload.distribution for workload in uniform] == ["uniform", "uniform", "uniform", "latest"]
    assert [workload.shares for workload in uniform] == [WORKLOADS[name].shares for name in "ABCD"]
