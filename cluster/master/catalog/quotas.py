"""Sizes of tables with a quota, by the reports of the tablet servers that lead their tablets."""

from __future__ import annotations

from ..directory import TabletDirectory
from .catalog_state import CatalogState


def tables_above_quota(state: CatalogState, directory: TabletDirectory) -> dict[str, int]:
    """Returns the bytes of tables that have reached their quota, by id; what no server has reported yet counts as
    nothing, so a master that has just begun to lead may let writes through for a heartbeat."""
    found: dict[str, int] = {}
    for record in state.tables.values():
        quota = record.table.quota_bytes
        if quota is None:
            continue
        size = sum(tablet_bytes(directory, tablet_id) for tablet_id in record.entry.tablet_ids)
        if size >= quota:
            found[record.id] = size
    return found


def tablet_bytes(directory: TabletDirectory, tablet_id: str) -> int:
    """Returns the bytes of a tablet as its leader has reported them last. Between two leaders it is the greatest report
    that any server has made, since a former leader omits the tablet from its next heartbeat."""
    observed = directory.tablets.get(tablet_id)
    leader = None if observed is None else directory.servers.get(observed.leader)
    if leader is not None and tablet_id in leader.sizes:
        return leader.sizes[tablet_id]
    return max((server.sizes.get(tablet_id, 0) for server in directory.servers.values()), default=0)
