"""SCRAM-SHA-256: the example of the standard, both sides against each other, and what does not fit."""

from __future__ import annotations

from base64 import b64decode

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import InvalidPassword
from nyala.model.access.passwords import make_verifier, mock_verifier, prepared, read_verifier, verifier_text
from nyala.model.access.scram import ClientExchange, ServerExchange, new_nonce


def test_the_example_of_the_standard() -> None:
    """RFC 7677, section 3."""
    verifier = make_verifier("pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    exchange = ServerExchange(verifier, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert exchange.first("n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert exchange.final(final) == "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def both_sides(server: ServerExchange, password: str) -> None:
    client = ClientExchange(password)
    client.check(server.final(client.final(server.first(client.first()))))


@settings(max_examples=examples(30))
@given(st.text(min_size=1, max_size=20))
def test_a_password_is_right_for_its_verifier_alone(password: str) -> None:
    found = read_verifier(verifier_text(password))
    assert found is not None and found.text == verifier_text(found.text)
    both_sides(ServerExchange(found, new_nonce()), password)
    with pytest.raises(InvalidPassword):
        both_sides(ServerExchange(found, new_nonce()), password + "x")


def test_a_name_without_a_password_gets_the_same_salt_each_time_and_fails_at_the_end() -> None:
    one, again, other = (mock_verifier(name, b"secret") for name in ("ann", "ann", "ben"))
    assert one.salt == again.salt != other.salt and len(one.salt) == len(make_verifier("x").salt)
    client, server = ClientExchange("x"), ServerExchange(one, new_nonce(), "no")
    final = client.final(server.first(client.first()))
    with pytest.raises(InvalidPassword, match=r"^no$"):
        server.final(final)


def test_a_server_that_does_not_know_the_verifier_is_refused() -> None:
    client = ClientExchange("x")
    server = ServerExchange(make_verifier("x"), new_nonce())
    client.final(server.first(client.first()))
    with pytest.raises(InvalidPassword, match="the server does not have this user's password"):
        client.check("v=AAAA")


@pytest.mark.parametrize("first", ["", "n,,", "n,,n=,r=", "p=tls-unique,,n=,r=abcdefghijk", "\0"])
def test_malformed_messages_are_a_failed_authentication(first: str) -> None:
    exchange = ServerExchange(make_verifier("x"), new_nonce())
    with pytest.raises(InvalidPassword):
        exchange.final(exchange.first(first))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("I\u00adX", "IX"),
        ("user", "user"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("\u0007", "\u0007"),
        ("\u0627\u0031", "\u0627\u0031"),
    ],
)
def test_passwords_are_prepared(given: str, found: str) -> None:
    """RFC 4013, section 3; what is prohibited is taken as it is, as PostgreSQL does."""
    assert prepared(given) == found


@pytest.mark.parametrize(
    "text", ["SCRAM-SHA-256$0:eA==$" + "A" * 44 + ":" + "A" * 44, "SCRAM-SHA-256$4096:x$y:z", "md5abc"]
)
def test_what_is_no_verifier_is_a_password(text: str) -> None:
    assert read_verifier(text) is None
