"""Names of tables in namespaces: different ones have different names in the store, and a name gives back its parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.errors import DuplicateSchema, InvalidTableDefinition
from nyala.model.namespaces import DEFAULT_NAMESPACE, check_new_namespace, full_name, local_name

NAMES = st.text("ab.\"' ", min_size=1, max_size=6)


@given(NAMES, NAMES)
def test_a_name_in_the_store_gives_back_the_name_within_the_namespace(namespace, name):
    assert local_name(namespace, full_name(namespace, name)) == name
    assert full_name(DEFAULT_NAMESPACE, name) == name


@given(st.lists(st.tuples(NAMES, NAMES), min_size=2, max_size=2, unique=True))
def test_different_tables_outside_the_default_namespace_have_different_names(pair):
    (first, second), (third, fourth) = pair
    assert full_name(first, second) != full_name(third, fourth)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("", InvalidTableDefinition, "needs a name"),
        ("é" * 32, InvalidTableDefinition, "longer than 63 bytes"),
        ("pg_mine", InvalidTableDefinition, "begin with pg_"),
        ("information_schema", InvalidTableDefinition, "those of the system"),
        ("public", DuplicateSchema, "exists already$"),
        ("main", DuplicateSchema, "another name of public"),
    ],
)
def test_names_that_no_new_namespace_can_have(name, error, message):
    with pytest.raises(error, match=message):
        check_new_namespace(name)
