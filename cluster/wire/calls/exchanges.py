"""Reading an exchange whose messages are sent as metadata, without batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from ..messages.errors import raised_by_flight


def messages(reader: Any, address: str) -> Iterator[bytes]:
    """Yields the messages of an exchange until it ends; raises `errors` if it breaks. `address` is for these."""
    while True:
        try:
            chunk = reader.read_chunk()
        except StopIteration:
            return
        except (pa.ArrowException, OSError) as error:
            raise raised_by_flight(error, address) from None
        if chunk.app_metadata is not None:
            yield chunk.app_metadata.to_pybytes()
