"""Tokens: only the servers' own, unchanged and not expired, name a user."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.errors import LoginExpired
from nyala.model.access.tokens import (
    KEPT_SECONDS,
    KEY_SECONDS,
    TOKEN_SECONDS,
    TokenKey,
    kept_keys,
    make_token,
    new_key,
    read_token,
    signing_key,
)

KEY = new_key((), now=1000.0)


@given(st.text(), st.floats(1.0, 1e9))
def test_a_token_names_its_user_until_it_expires(user: str, expires: float) -> None:
    token = make_token(user, expires, KEY)
    assert read_token(token, [KEY], now=expires - 0.01) == user
    with pytest.raises(LoginExpired, match="has expired"):
        read_token(token, [KEY], now=expires)


@given(st.data())
def test_no_changed_token_is_accepted(data: st.DataObject) -> None:
    token = bytearray(make_token("ann", 5000.0, KEY))
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(token) - 1))
        token[place] ^= data.draw(st.integers(1, 255))
    else:
        token = token[: data.draw(st.integers(0, len(token) - 1))]
    with pytest.raises(LoginExpired):
        read_token(bytes(token), [KEY], now=0.0)


def test_a_token_of_other_servers_is_not_accepted() -> None:
    other = TokenKey(KEY.number, b"\0" * 32, KEY.made)
    with pytest.raises(LoginExpired, match="not been signed by these servers"):
        read_token(make_token("nyala", 5000.0, other), [KEY], now=0.0)
    with pytest.raises(LoginExpired, match="not been signed by these servers"):
        read_token(make_token("nyala", 5000.0, KEY), [], now=0.0)


def test_keys_take_turns_and_outlive_their_tokens() -> None:
    assert signing_key([], now=0.0) is None
    first = new_key([], now=0.0)
    assert signing_key([first], now=KEY_SECONDS - 1.0) is first
    assert signing_key([first], now=float(KEY_SECONDS)) is None
    second = new_key([first], now=float(KEY_SECONDS))
    assert second.number == first.number + 1 and second.secret != first.secret
    assert signing_key([second, first], now=KEY_SECONDS + 1.0) is second
    last = make_token("ann", KEY_SECONDS - 1.0 + TOKEN_SECONDS, first)
    kept = kept_keys([first, second], now=KEY_SECONDS + TOKEN_SECONDS - 2.0)
    assert read_token(last, kept, now=KEY_SECONDS + TOKEN_SECONDS - 2.0) == "ann"
    assert kept_keys([first, second], now=float(KEPT_SECONDS)) == (second,)


def test_keys_are_not_shown() -> None:
    assert KEY.secret.hex() not in repr(KEY) and repr(KEY.secret) not in repr(KEY)
