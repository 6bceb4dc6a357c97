"""Which tablet a file belongs to: what its own bytes say must agree with where it lies.

    .../<tablet id>/metadata               the id is in the payload
                    wal/<index>.log        the id is in the header
                    rowsets/<name>         "<tablet id>/<name>" is in the footer (columns, Bloom filters, deltas)
    .../commits/<index>.log                `COMMIT_LOG` is in the header

Checksums find bytes that were changed. A file that is whole and was put into another one's place, by a restore that
mixed up two tablets say, is found by its identity. Files of earlier versions have none, and are taken as they are.
"""

from __future__ import annotations

from ...errors import CorruptionError

COMMIT_LOG = "the commit log"
"""In the place of a tablet's id, in segments of the log that decides on writes over several tablets."""


def tablet_of(path: str) -> str:
    """The id of the tablet in whose folder a log segment or a rowset's file lies, `COMMIT_LOG` for a segment of that;
    "" where it lies elsewhere.

    >>> tablet_of("db/tables/t000001/t000001-p0000/wal/0000000000000001.log")
    't000001-p0000'
    >>> tablet_of("copy.log")
    ''
    """
    parts = path.split("/")
    if len(parts) > 1 and parts[-2] == "commits":
        return COMMIT_LOG
    return parts[-3] if len(parts) > 2 and parts[-2] in ("wal", "rowsets") else ""


def identity_of(path: str) -> str:
    """Identity of a rowset's file for its footer; "" if it is not in a tablet's folder.

    >>> identity_of("db/tables/t000001/t000001-p0000/rowsets/rowset-00000001.bloom")
    't000001-p0000/rowset-00000001.bloom'
    """
    tablet = tablet_of(path)
    return f"{tablet}/{path.rpartition('/')[2]}" if tablet else ""


def check_identity(found: str, path: str, place: str) -> None:
    """Raise `CorruptionError` where a file says that it is another one."""
    expected = identity_of(path)
    if found and expected and found != expected:
        raise CorruptionError(f"holds {found}, expected {expected}: files were mixed up", path, place)


def check_tablet(found: str, path: str, place: str) -> None:
    """Raise `CorruptionError` where a file says that it belongs to another tablet."""
    expected = tablet_of(path)
    if found and expected and found != expected:
        owner = found if found == COMMIT_LOG else f"tablet {found}"
        raise CorruptionError(f"belongs to {owner}, expected {expected}: files were mixed up", path, place)
