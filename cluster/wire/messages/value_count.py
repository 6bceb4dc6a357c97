"""A limit on the number of values in one message, checked before it is decoded.

A map without entries is one byte of msgpack and 64 bytes of memory: 16 MiB of them would be more than 1 GiB. Large
messages of nyala are a few long byte strings (rows of Arrow, bitmaps, fragments), so the limit counts values: maps,
arrays, numbers, texts. msgspec itself does not trust declared lengths, and refuses messages nested more than 1,000
levels deep.
"""

from __future__ import annotations

from ....errors import ProtocolError

SMALL_BYTES = 64 << 10
"""A message up to this size is not checked: it takes a few MiB at most. Counting takes 50 to 100 ns per value."""
MAX_VALUES = 2_000_000
"""A catalog of some thousand tables, or the full report of a server with 50,000 replicas, has fewer."""

# By the first byte of a value: bytes of its fixed part after that byte, bytes of its length, and the unit of the length
# ("": there is none; "b": bytes; "v": values; "m": pairs of values).
_FIXED = {0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4}
_FIXED |= {0xD3: 8, 0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17}
_BYTES = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_EXTENSIONS = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_ARRAYS = {0xDC: 2, 0xDD: 4}
_MAPS = {0xDE: 2, 0xDF: 4}


def check_value_count(data: memoryview, what: str, most: int = MAX_VALUES) -> None:
    """Raises `ProtocolError` if a message of msgpack has more values than `most`, or claims more values than it has
    bytes. The decoder finds other faults."""
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
                f"a {what} of {size:,} bytes claims to hold {count + waiting:,} values or more; at most "
                f"{min(most, size):,} are accepted: small messages must not become large in memory"
            )


def _long(data: memoryview, first: int, place: int, waiting: int) -> tuple[int, int]:
    """Returns where the next value begins after one with a length of its own, and the number of values expected
    then."""
    for widths, per, extra in ((_BYTES, 0, 0), (_EXTENSIONS, 0, 1), (_ARRAYS, 1, 0), (_MAPS, 2, 0)):
        if (width := widths.get(first)) is not None:
            length = int.from_bytes(data[place : place + width], "big")
            if per:
                return place + width, waiting + per * length
            return place + width + extra + length, waiting
    return place, waiting  # 0xC1 is not a value
