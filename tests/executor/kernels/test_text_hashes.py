"""Hashes of texts depend on every byte of a text, and on nothing else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.executor.kernels.texts import text_hashes as module
from nyala.executor.kernels.texts.text_hashes import text_hashes


@settings(deadline=None, max_examples=examples(80))
@given(st.lists(st.one_of(st.none(), st.binary(max_size=40), st.binary(min_size=250, max_size=270)), max_size=40))
def test_a_hash_depends_on_the_text_alone(texts: list[bytes | None]) -> None:
    array = pa.array(texts, pa.binary())
    hashes = text_hashes(array)
    alone = {text: text_hashes(pa.array([text], pa.binary()))[0] for text in texts if text is not None}
    assert all(hashes[row] == alone[text] for row, text in enumerate(texts) if text is not None)
    assert len(set(alone.values())) == len(alone)
    for start in range(0, len(texts), 7):
        assert text_hashes(array.slice(start, 7)).tolist() == hashes[start : start + 7].tolist() or None in texts


@pytest.mark.parametrize("length", [1, 7, 8, 9, 12, 15, 16, 17, 24, 25, 31, 256, 257])
def test_every_byte_counts(length: int) -> None:
    texts = [bytes(length)]
    for place in range(length):
        texts += [bytes(place) + bytes([1 << bit]) + bytes(length - place - 1) for bit in range(8)]
    assert len(set(text_hashes(pa.array(texts, pa.binary())).tolist())) == len(texts)


@pytest.mark.parametrize("pattern", ["{:d}", "id{:010d}", "{:012d}", "customer {:08d} of {:d}", "{:03d}-{:024d}"])
def test_numbered_texts_do_not_collide(pattern: str) -> None:
    # Digits stand in the first and in the last word of twelve bytes: differences of both must not cancel.
    texts = pa.array([pattern.format(i, 7 * i) for i in range(30_000)])
    hashes = text_hashes(texts)
    assert len(np.unique(hashes)) == len(texts)
    # The high bits are used as places of hash tables.
    counts = np.bincount((hashes >> np.uint64(52)).astype(np.intp), minlength=4096)
    assert counts.max() < 40


def test_portions_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = pa.array([str(i) * (i % 9) for i in range(1000)])
    whole = text_hashes(texts)
    monkeypatch.setattr(module, "_ROWS", 7)
    assert text_hashes(texts).tolist() == whole.tolist()


def test_no_texts_and_empty_texts() -> None:
    assert len(text_hashes(pa.array([], pa.string()))) == 0
    assert text_hashes(pa.nulls(3, pa.string())).shape == (3,)
    assert len(set(text_hashes(pa.array(["", "", ""])).tolist())) == 1
