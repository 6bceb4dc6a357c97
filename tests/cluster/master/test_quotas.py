"""The master's sums of tables with a quota, by reports that come late, twice, or from a former leader."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from nyala.cluster.master.catalog.catalog_state import CatalogState
from nyala.cluster.master.catalog.quotas import tables_above_quota, tablet_bytes
from nyala.cluster.master.catalog.records import TabletRecord
from nyala.cluster.master.directory import TabletDirectory
from nyala.cluster.raft.messages import Peer
from nyala.cluster.tserver.quotas import Quotas
from nyala.cluster.wire.messages.methods import Heartbeat
from nyala.errors import QuotaExceeded
from nyala.model.store import Op

from tests.master_support import configuration, report

ONE, TWO = "t000001-p0000", "t000001-p0001"


def directory() -> TabletDirectory:
    records = [TabletRecord(tablet, "t000001", configuration("a", "b", "c")) for tablet in (ONE, TWO)]
    return TabletDirectory(records, 0.0)


def beat(found: TabletDirectory, server: str, sequence: int, sizes: dict[str, int], *reports: Any) -> None:
    peer = Peer(server, f"{server}:1")
    request = Heartbeat(server=peer, sequence=sequence, is_full=True, session="x", reports=reports, sizes=sizes)
    found.heartbeat(request, 1.0)


def state(quota: int | None) -> CatalogState:
    record = SimpleNamespace(
        id="t000001", table=SimpleNamespace(quota_bytes=quota), entry=SimpleNamespace(tablet_ids=(ONE, TWO))
    )
    return cast(CatalogState, SimpleNamespace(tables={"t000001": record}))


def test_a_table_is_the_sum_of_its_leaders() -> None:
    found = directory()
    beat(found, "a", 1, {ONE: 700})
    assert tables_above_quota(state(1000), found) == {}
    beat(found, "b", 1, {TWO: 300})
    assert tables_above_quota(state(1000), found) == {"t000001": 1000}
    assert tables_above_quota(state(1001), found) == tables_above_quota(state(None), found) == {}
    beat(found, "b", 2, {TWO: 299})
    assert tables_above_quota(state(1000), found) == {}


def test_the_leader_counts_and_not_who_led_before() -> None:
    found = directory()
    beat(found, "a", 1, {ONE: 700}, report(ONE, role="LEADER", term=1))
    beat(found, "b", 1, {ONE: 500}, report(ONE, role="LEADER", term=2))
    assert tablet_bytes(found, ONE) == 500
    beat(found, "b", 2, {}, report(ONE, role="FOLLOWER", term=3))
    assert tablet_bytes(found, ONE) == 700, "the last that is known, until the next leader reports"


def test_a_late_heartbeat_changes_no_size() -> None:
    found = directory()
    beat(found, "a", 5, {ONE: 700})
    beat(found, "a", 4, {ONE: 100})
    assert tablet_bytes(found, ONE) == 700


def replica(quota: int | None) -> Any:
    return SimpleNamespace(table=SimpleNamespace(id="t000001", name="t", quota_bytes=quota))


def test_a_server_holds_writes_against_the_last_reply() -> None:
    quotas = Quotas(list, 2.5)
    quotas.check(replica(10), Op.INSERT)
    quotas.update({"t000001": 1234})
    with pytest.raises(QuotaExceeded, match=r"table t has .*1,234 of 1,000 bytes.*reported .* every 2.5 s"):
        quotas.check(replica(1000), Op.INSERT)
    quotas.check(replica(1000), Op.DELETE)
    quotas.check(replica(2000), Op.INSERT)  # the quota has been raised since
    quotas.check(replica(None), Op.INSERT)
    quotas.update({})
    quotas.check(replica(1000), Op.INSERT)
