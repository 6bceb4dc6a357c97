"""A limit to the values of one message, counted before it is decoded.

A map without entries is one byte of msgpack and 64 bytes of memory: 16 MiB of them would be more than 1 GiB. Large
messages of nyala are a few long byte strings (rows of Arrow, bitmaps, fragments), so what is counted are values: maps,
arrays, numbers, texts. msgspec itself does not believe declared lengths, and refuses what is nested more than 1,000
levels deep.
"""

from __future__ import annotations

from ....errors import ProtocolError

SMALL_BYTES = 64 << 10
"""What is no longer is not looked at: it takes a few MiB at most. To count takes 50 to 100 ns per value."""
MAX_VALUES = 2_000_000
"""A catalog of some thousand tables, or the full report of a server with 50,000 replicas, has fewer."""

# By the first byte of a value: bytes of its fixed part behind that byte, bytes of its length, and what the length is of
# ("": there is none; "b": bytes; "v": values; "m": pairs of values).
_FIXED = {0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4}
_FIXED |= {0xD3: 8, 0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17}
_BYTES = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_EXTENSIONS = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_ARRAYS = {0xDC: 2, 0xDD: 4}
_MAPS = {0xDE: 2, 0xDF: 4}


def check_value_count(data: memoryview, what: str, most: int = MAX_VALUES) -> None:
    """`ProtocolError` if a message of msgpack has more values than `most`, or says that it has more than bytes. Other
    faults are the decoder's to find."""
    if len(data) <= SMALL_BYTES:
        return
    size, place, waiting, count = len(data), 0, 1, 0
    while waiting and place < size:
        first = data[place]
        place += 1
        waiting -= 1
        count += 1
        if first < 0x80 or first >= 0xE0:
            continue
        if first < 0x90:
            waiting += 2 * (first & 15)
        elif first < 0xA0:
            waiting += first & 15
        elif first < 0xC0:
            place += first & 31
            continue
        elif (fixed := _FIXED.get(first)) is not None:
            place += fixed
            continue
        else:
            place, waiting = _long(data, first, place, waiting)
        if waiting > size - place or count + waiting > most:
            raise ProtocolError(
                f"a {what} of {size:,} bytes says that it holds {count + waiting:,} values or more; at most "
                f"{min(most, size):,} are taken: small messages must not become large in memory"
            )


def _long(data: memoryview, first: int, place: int, waiting: int) -> tuple[int, int]:
    """Where the next value begins behind one with a length of its own, and how many values are waited for then."""
    for widths, per, extra in ((_BYTES, 0, 0), (_EXTENSIONS, 0, 1), (_ARRAYS, 1, 0), (_MAPS, 2, 0)):
        if (width := widths.get(first)) is not None:
            length = int.from_bytes(data[place : place + width], "big")
            if per:
                return place + width, waiting + per * length
            return place + width + extra + length, waiting
    return place, waiting  # 0xC1 is no value
