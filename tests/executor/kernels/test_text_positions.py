"""Positions and pieces of texts in whole columns, against Python's own functions row by row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.executor.expressions.kernel_table import KERNELS
from nyala.executor.kernels.texts.regex_matches import characters_before
from nyala.model.types import INT, STRING
from nyala.model.vectors.vector import Const, Text

LETTERS = st.text("abß語😀. ", max_size=12)


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.one_of(st.none(), LETTERS), min_size=1, max_size=20), st.text("abß語😀.", max_size=3), st.booleans())
def test_positions_count_characters(texts: list[str | None], part: str, many: bool) -> None:
    texts = texts * 600 if many else texts
    # A slice's rows lie in the middle of the buffer, between others.
    whole = pa.array(["ßx", *texts, "y語"], pa.string())
    vector = Text(STRING, whole.slice(1, len(texts)))
    found = KERNELS["strpos"](INT, vector, Const(STRING, part, len(texts))).to_arrow().to_pylist()
    assert found == [None if text is None else text.find(part) + 1 for text in texts]


@pytest.mark.parametrize("text", ["plain", "ße語😀x"])
def test_characters_before_a_byte(text: str) -> None:
    texts = pa.array(["", text, "😀", text])
    sizes = [len(text[:i].encode()) for i in range(len(text) + 1)]
    for row in (1, 3):
        counts = characters_before(texts, np.full(len(sizes), row), np.array(sizes))
        assert counts.tolist() == list(range(len(text) + 1))
