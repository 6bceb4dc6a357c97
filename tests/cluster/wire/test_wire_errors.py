"""The remains of gRPC's words in errors; the texts are those of gRPC 1.60 and later, as Flight passes them on."""

from __future__ import annotations

import msgspec
import pytest
from nyala import errors
from nyala.cluster.wire.messages.errors import error_from_body, error_to_body, raised_by_flight
from pyarrow import flight

_UNREACHED = "Flight returned unavailable error, with message: failed to connect to all addresses; last error: "


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            _UNREACHED + "UNKNOWN: ipv4:127.0.0.1:7051: Failed to connect to remote host: Connection refused",
            "m:7051 cannot be reached: Connection refused",
        ),
        (
            _UNREACHED
            + "UNKNOWN: ipv6:%5B::1%5D:5: Failed to connect to remote host: connect: Connection refused (111)",
            "m:7051 cannot be reached: Connection refused (111)",
        ),
        (
            "Flight returned unavailable error, with message: errors resolving m.invalid:3: [field:hostname lookup "
            "error:address lookup failed for m.invalid:3: Domain name not found]",
            "m:7051 cannot be reached: address lookup failed for m.invalid:3: Domain name not found",
        ),
    ],
)
def test_nobody_listens(text: str, told: str) -> None:
    found = raised_by_flight(flight.FlightUnavailableError(text), "m:7051")
    assert isinstance(found, errors.ConnectionRefused)
    assert str(found) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            _UNREACHED + "UNAVAILABLE: ipv4:127.0.0.1:1: recvmsg:Connection reset by peer",
            "recvmsg:Connection reset by peer",
        ),
        (
            _UNREACHED + "UNKNOWN: ipv4:127.0.0.1:1: connection attempt timed out before receiving SETTINGS frame",
            "connection attempt timed out before receiving SETTINGS frame",
        ),
        (
            "Flight returned unavailable error, with message: Stream removed (Socket closed). gRPC client debug "
            "context: UNAVAILABLE:Stream removed (Socket closed). Client context: OK",
            "Stream removed (Socket closed)",
        ),
    ],
)
def test_no_connection(text: str, told: str) -> None:
    found = raised_by_flight(flight.FlightUnavailableError(text), "m:7051")
    assert type(found) is errors.ServerUnavailable
    assert str(found) == f"m:7051 cannot be reached: {told}"


def test_a_server_of_something_else() -> None:
    text = (
        "inner bug\nsecond. Detail: Python exception: Traceback (most recent call last):\n  File x\nValueError: inner "
        "bug. gRPC client debug context: INVALID_ARGUMENT:inner bug"
    )
    found = raised_by_flight(flight.FlightServerError(text), "m:7051")
    assert isinstance(found, errors.ProtocolError)
    assert str(found) == "m:7051 does not answer as a server of nyala: inner bug"


def test_a_text_too_long_keeps_its_class() -> None:
    body = error_to_body(errors.TextTooLong("a text of 4 characters is too long for VARCHAR(3)"))
    found = error_from_body(body)
    assert type(found) is errors.TextTooLong
    assert (found.sqlstate, str(found)) == ("22001", "a text of 4 characters is too long for VARCHAR(3)")
    older = msgspec.structs.replace(body, classes=("Unheard", *body.classes[1:]))
    assert type(error_from_body(older)) is errors.DataError
