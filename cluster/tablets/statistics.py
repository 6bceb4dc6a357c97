"""Statistics of a tablet for a planner."""

from __future__ import annotations

from ...model.schema import Table
from ...storage.statistics.analysis import table_storage
from ...storage.statistics.table_statistics import StatisticsCache
from ...storage.tablet.tablet import Tablet
from ..wire.messages.methods import TabletFacts
from ..wire.messages.plain import sketch_to_plain, statistics_to_plain, storage_to_plain


def data_bytes(tablet: Tablet) -> int:
    """Bytes of the rowsets on disk."""
    return sum(stored.metadata.data_bytes for stored in tablet.state.rowsets)


def tablet_statistics(tablet: Tablet, table: Table, cache: StatisticsCache) -> TabletFacts:
    """Returns all statistics of a tablet of a table in this version; `cache` is the tablet's own."""
    statistics, sketches = cache.get_with_sketches({tablet.id: tablet.pin()})
    return TabletFacts(
        tablet_id=tablet.id,
        rows=tablet.row_count,
        bytes=data_bytes(tablet),
        statistics=statistics_to_plain(statistics),
        storage=storage_to_plain(table_storage(table, [tablet])),
        sketches={name: sketch_to_plain(sketch) for name, sketch in sketches.items()},
    )
