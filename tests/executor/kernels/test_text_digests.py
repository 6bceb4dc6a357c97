"""Digests of whole columns, against hashlib."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.executor.expressions.kernel_table import KERNELS
from nyala.executor.kernels.texts import text_digests as module
from nyala.model.types import BINARY, STRING
from nyala.model.vectors.vector import Dict, Text


def digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.md5(data).hexdigest()


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.one_of(st.none(), st.binary(max_size=200)), max_size=30), st.booleans())
def test_digests_are_those_of_hashlib(values: list[bytes | None], at_once: bool) -> None:
    array = pa.array([b"before", *values, b"after"], pa.binary()).slice(1, len(values))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FEWEST", 1 if at_once else 1000)
        patch.setattr(module, "_TEXTS_AT_A_TIME", 7)
        found = KERNELS["md5"](STRING, Text(BINARY, array)).to_arrow()
    found.validate(full=True)
    assert found.to_pylist() == [digest(value) for value in values]


def test_every_length_up_to_ten_blocks() -> None:
    draw = random.Random(0)
    texts = [draw.randbytes(length) for length in range(10 * 64) for _ in range(2)]
    digests = module.md5_digests(
        np.frombuffer(b"".join(texts), np.uint8), np.cumsum([0, *(len(text) for text in texts)])
    )
    assert [row.tobytes() for row in digests] == [hashlib.md5(text).digest() for text in texts]


def test_entries_of_a_dictionary_are_computed_once() -> None:
    validity = np.array([True, False, True] * 50)
    words = Dict(STRING, np.array([2, 0, 0] * 50, np.uint8), pa.array(["", "ß", "語"]), validity)
    assert KERNELS["md5"](STRING, words).to_arrow().to_pylist() == [digest("語".encode()), None, digest(b"")] * 50


@pytest.mark.parametrize("name", ["sha224", "sha256", "sha384", "sha512"])
def test_sha_2(name: str) -> None:
    texts = ["", None, "ß語", "x" * 1000] * 3
    expected = [None if text is None else hashlib.new(name, text.encode()).digest() for text in texts]
    column = pa.array(texts, pa.string())
    codes, validity = np.array([0, 0, 1, 2] * 3, np.uint8), np.array([True, False, True, True] * 3)
    entries = Dict(STRING, codes, pa.array(["", "ß語", "x" * 1000]), validity)
    for vector in (Text(STRING, column), entries, Text(BINARY, column.cast(pa.binary()))):
        assert KERNELS[name](BINARY, vector).to_arrow().to_pylist() == expected
