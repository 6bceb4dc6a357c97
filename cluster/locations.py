"""Locations of servers: paths such as /dc1/rack2, of which two servers may share the beginning.

Servers without a location are at "", which counts as one location: a cluster whose servers have none is as if all were
in one place.

A tablet is spread well if no location has a majority of its replicas, so that the loss of one leaves the tablet with a
leader (Kudu: placement policy). With fewer than three locations that cannot be: then the replicas are spread as evenly
as possible.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from ..errors import InterfaceError

_LOCATION = re.compile(r"(/[A-Za-z0-9_.-]+)+")


def check_location(location: str) -> str:
    """Returns a location; raises `InterfaceError` if it is not "", or names that each follow a slash."""
    if location and not _LOCATION.fullmatch(location):
        raise InterfaceError(
            f"location {location!r}: expected names after slashes, such as /dc1/rack2, of letters, digits and ._-"
        )
    return location


def shared_depth(one: str, other: str) -> int:
    """Returns the number of names that two locations share from the beginning.

    >>> shared_depth("/dc1/rack1", "/dc1/rack2"), shared_depth("/dc1/rack1", "/dc10"), shared_depth("", "")
    (1, 0, 0)
    """
    depth = 0
    for a, b in zip(one.split("/")[1:], other.split("/")[1:]):
        if a != b:
            break
        depth += 1
    return depth


def most_per_location(replicas: int) -> int:
    """Returns the greatest number of a tablet's replicas in one location that is no majority of them."""
    return (replicas - 1) // 2


def well_placed(
    candidates: Iterable[str], present: Iterable[str], replicas: int, locations: Mapping[str, str]
) -> list[str]:
    """Returns the servers to which a tablet's next replica should go, as far as locations matter.

    Parameters
    ----------
    candidates : iterable of str
        Servers without a replica of the tablet.
    present : iterable of str
        Those with one.
    replicas : int
        The number that the tablet is to have.
    locations : mapping of str to str
        By server; "" for those that it lacks.
    """
    servers = list(candidates)
    counts = Counter(locations.get(server, "") for server in present)
    free = [s for s in servers if counts[locations.get(s, "")] < most_per_location(replicas)]
    if free or not servers:
        return free
    fewest = min(counts[locations.get(server, "")] for server in servers)
    return [server for server in servers if counts[locations.get(server, "")] == fewest]


def worse(servers: Iterable[str], replicas: int, locations: Mapping[str, str]) -> int:
    """Returns by how many replicas the fullest location of a tablet exceeds the greatest number that is no majority; 0
    if it does not."""
    counts = Counter(locations.get(server, "") for server in servers)
    return max(0, max(counts.values(), default=0) - most_per_location(replicas))
