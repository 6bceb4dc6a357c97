"""Tokens: only the servers' own, unchanged and not expired, name a user."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.errors import LoginExpired
from nyala.model.access.roles import Access, Role
from nyala.model.access.steps import AccessStep, AlterRole, CreateRole, DropRole, apply_access_steps
from nyala.model.access.tokens import (
    KEPT_SECONDS,
    KEY_SECONDS,
    TASK_SECONDS,
    Claims,
    TokenKey,
    TokenKind,
    kept_keys,
    make_token,
    new_key,
    read_token,
    signing_key,
    token_expiry,
    token_user,
)

KEY = new_key((), now=1000.0)
ANN = Role("ann", can_login=True, verifier="v", number=16_384)


@given(st.text(), st.integers(0, 2**32 - 1), st.sampled_from(TokenKind), st.floats(1.0, 1e9))
def test_a_token_names_its_user_until_it_expires(user: str, number: int, kind: TokenKind, expires: float) -> None:
    role = Role(user, number=number, logins_ended=number // 2)
    token = make_token(role, expires, KEY, kind)
    claims = read_token(token, [KEY], now=expires - 0.01)
    assert claims == Claims(user, number, number // 2, kind) and claims.is_of(role)
    assert token_user(token) == user and abs(token_expiry(token) - expires) < 1e-3
    with pytest.raises(LoginExpired, match="has expired"):
        read_token(token, [KEY], now=expires)


@given(st.data())
def test_no_changed_token_is_accepted(data: st.DataObject) -> None:
    token = bytearray(make_token(ANN, 5000.0, KEY))
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
        read_token(make_token(ANN, 5000.0, other), [KEY], now=0.0)
    with pytest.raises(LoginExpired, match="not been signed by these servers"):
        read_token(make_token(ANN, 5000.0, KEY), [], now=0.0)


def test_keys_take_turns_and_outlive_their_tokens() -> None:
    assert signing_key([], now=0.0) is None
    first = new_key([], now=0.0)
    assert signing_key([first], now=KEY_SECONDS - 1.0) is first
    assert signing_key([first], now=float(KEY_SECONDS)) is None
    second = new_key([first], now=float(KEY_SECONDS))
    assert second.number == first.number + 1 and second.secret != first.secret
    assert signing_key([second, first], now=KEY_SECONDS + 1.0) is second
    last = make_token(ANN, KEY_SECONDS - 1.0 + TASK_SECONDS, first, TokenKind.TASK)
    kept = kept_keys([first, second], now=KEY_SECONDS + TASK_SECONDS - 2.0)
    assert read_token(last, kept, now=KEY_SECONDS + TASK_SECONDS - 2.0).user == "ann"
    assert kept_keys([first, second], now=float(KEPT_SECONDS)) == (second,)


def test_keys_are_not_shown() -> None:
    assert KEY.secret.hex() not in repr(KEY) and repr(KEY.secret) not in repr(KEY)


CHANGES: list[tuple[list[AccessStep], bool]] = [
    ([AlterRole("ann", (("verifier", "another"),))], True),
    ([AlterRole("ann", (("verifier", ""),))], True),
    ([AlterRole("ann", (("can_login", False),))], True),
    ([AlterRole("ann", (("can_login", False),)), AlterRole("ann", (("can_login", True),))], True),
    ([AlterRole("ann", (("valid_until", 10),))], True),
    ([DropRole("ann"), CreateRole(Role("ann", can_login=True, verifier="v"))], True),
    ([AlterRole("ann", (("is_superuser", True),))], False),
    ([AlterRole("ann", (("verifier", "v"), ("can_login", True)))], False),
    ([AlterRole("ann", (("valid_until", None),))], False),
    ([AlterRole("ben", (("verifier", "another"),))], False),
]


@pytest.mark.parametrize(("steps", "ends"), CHANGES)
def test_what_a_user_had_to_prove_ends_its_tokens_when_it_changes(steps: list[AccessStep], ends: bool) -> None:
    before = [CreateRole(Role("ben", can_login=True, is_superuser=True, verifier="v")), CreateRole(ANN)]
    access = apply_access_steps(Access(), before, {})
    role = access.role("ann")
    assert role is not None
    claims = read_token(make_token(role, 9.0, KEY), [KEY], now=0.0)
    after = apply_access_steps(access, steps, {}).role("ann")
    assert claims.is_of(role) and after is not None and claims.is_of(after) is not ends


def test_an_earlier_end_of_a_password_ends_tokens_and_a_later_one_does_not() -> None:
    access = apply_access_steps(Access(), [CreateRole(ANN)], {})
    ended = []
    for until in (100, 200, 150, 150, None, 150):
        access = apply_access_steps(access, [AlterRole("ann", (("valid_until", until),))], {})
        ended.append(access.roles["ann"].logins_ended)
    assert ended == [1, 1, 2, 2, 2, 3]
