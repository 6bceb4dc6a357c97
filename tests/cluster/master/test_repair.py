import random
from dataclasses import replace

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.cluster.master.balance.cluster_view import ClusterView, ReplicaAt, ServerView, TabletView
from nyala.cluster.master.balance.orders import (
    AddReplica,
    AlterReplicas,
    AskReport,
    CreateReplica,
    DeleteReplica,
    MoveLeader,
    Order,
    RemoveReplica,
)
from nyala.cluster.master.balance.repair import Limits, decide, is_braked
from nyala.cluster.master.directory import Observed

from tests.master_support import ModelCluster, ModelReplica, ModelTablet, configuration, report

T = "t000001-p0000"
RACKS = {"a": "/1", "b": "/2", "c": "/3", "d": "/1", "e": "/2", "f": "/3"}
TWO_RACKS = {"a": "/1", "b": "/2", "d": "/1", "e": "/1"}


def view(
    peers: list[str],
    *,
    servers: str = "abcd",
    dead: str = "",
    leaving: str = "",
    failed: str = "",
    damaged: str = "",
    tombstoned: str = "",
    outside: str = "",
    leader: str = "a",
    version: int = 0,
    wanted_version: int = 0,
    created: bool = True,
    wanted: int = 3,
    may_shrink: bool = True,
    silent: str = "",
    absent: str = "",
    quiescing: str = "",
    places: dict[str, str] | None = None,
) -> ClusterView:
    """A cluster with one tablet; the configuration has index 7, replicas `outside` it have that of index 5."""
    told = configuration(*peers, index=7)
    reports = {}
    for peer in told.peers:
        state = "FAILED" if peer.id in failed + damaged else "RUNNING"
        role = "LEADER" if peer.id == leader else "FOLLOWER"
        if peer.id not in silent:
            reports[peer.id] = report(
                role=role,
                leader=leader,
                peers=peers,
                index=7,
                state=state,
                version=version,
                votes=peer.id in damaged,
            )
    for id_ in outside:
        reports[id_] = report(peers=("a", "b", id_), index=5, state="TOMBSTONED" if id_ in tombstoned else "RUNNING")
    observed = Observed(told, leader, 1, reports)
    tablet = TabletView(T, "t000001", wanted, wanted_version, created, observed, may_shrink)
    views = {
        s: ServerView(
            s,
            f"{s}:1",
            s not in dead,
            s in leaving,
            in_maintenance=s in absent,
            is_quiescing=s in quiescing,
            location=(places or {}).get(s, ""),
        )
        for s in servers
    }
    return ClusterView(views, {T: tablet})


def shown(orders: list[Order]) -> list[str]:
    """Orders in words: what, of whom, at whom."""
    words = []
    for order in orders:
        match order:
            case AddReplica():
                words.append(f"add {order.peer.id} at {order.server}")
            case RemoveReplica():
                words.append(f"remove {order.peer.id} at {order.server}")
            case MoveLeader():
                words.append(f"lead {order.target} at {order.server}")
            case CreateReplica():
                words.append(f"create at {order.server}")
            case DeleteReplica():
                words.append(f"delete at {order.server} up to {order.configuration_index}")
            case AlterReplicas():
                words.append(f"alter at {order.server}")
            case AskReport():
                words.append(f"ask {order.server}")
    return words


def orders(cluster: ClusterView) -> list[str]:
    return shown(decide(cluster, Limits(), random.Random(0)))


@pytest.mark.parametrize(
    ("cluster", "wanted"),
    [
        (view(["a", "b", "c"]), []),
        # a server died: add first, remove when the new one has a vote
        (view(["a", "b", "c"], dead="c"), ["add d at a"]),
        (view(["a", "b", "c", "+d"], dead="c"), []),
        (view(["a", "b", "c", "d"], dead="c"), ["remove c at a"]),
        # no other server exists: the dead one may return
        (view(["a", "b", "c"], servers="abc", dead="c"), []),
        # the Raft configuration has shrunk; the dead server's replica is not in it any more
        (view(["a", "b"], servers="abc", dead="c"), []),
        (view(["a", "b"], servers="abc"), ["add c at a"]),
        # it returned before it was replaced: one too many, the copy continues, then the fullest server's is removed
        (view(["a", "b", "c", "+d"]), []),
        (view(["a", "b", "c", "d"], may_shrink=False), []),
        (view(["a", "b", "c", "d"]), ["remove d at a"]),
        # the copy's server died, too
        (view(["a", "b", "c", "+d"], servers="abcde", dead="cd"), ["remove d at a"]),
        (view(["a", "b", "c", "+d"], failed="d"), ["remove d at a"]),
        # no leader, no change
        (view(["a", "b", "c"], dead="c", leader=""), []),
        (view(["a", "b", "c"], dead="a", leader="a"), []),
        # a replica failed: created on another server, or again on the same one
        (view(["a", "b", "c"], failed="c"), ["add d at a"]),
        (view(["a", "b", "c"], servers="abc", failed="c"), ["remove c at a"]),
        (view(["a", "b"], servers="abc", outside="c"), ["delete at c up to 7"]),
        (view(["a", "b"], servers="abc", outside="c", tombstoned="c"), ["add c at a"]),
        # two failed of three: no majority is left to risk
        (view(["a", "b", "c"], servers="abc", failed="bc"), []),
        # but those with damaged data still vote: they are replaced one after the other
        (view(["a", "b", "c"], servers="abc", damaged="bc"), ["remove b at a"]),
        (view(["a", "c"], servers="abc", damaged="c"), ["add b at a"]),
        (view(["a", "b", "c"], servers="abcd", damaged="bc"), ["add d at a"]),
        (view(["a", "b", "c"], servers="abc", damaged="b", dead="c"), []),
        # never fewer voters than a majority of what the table needs
        (view(["a", "b"], servers="ab", failed="b"), []),
        (view(["a", "b"], servers="ab", damaged="b"), []),
        # a server leaves: like a dead one, and the leader transfers leadership
        (view(["a", "b", "c"], leaving="a"), ["add d at a"]),
        (view(["a", "b", "c", "d"], leaving="a"), ["lead b at a"]),
        (view(["a", "b", "c", "d"], leaving="a", leader="b"), ["remove a at b"]),
        (view(["a", "b", "c"], servers="abc", leaving="a"), []),
        (view(["a"], leaving="a", wanted=1, servers="ab"), ["add b at a"]),
        (view(["a", "b"], leaving="a", wanted=1, servers="ab"), ["lead b at a"]),
        # a server is away for maintenance: nothing is copied, unless another one is lost
        (view(["a", "b", "c"], dead="c", absent="c"), []),
        (view(["a", "b", "c"], dead="bc", absent="c"), ["add d at a"]),
        (view(["a", "b", "c"], dead="c", absent="bc"), []),
        (view(["a", "b", "c"], dead="c", absent="d"), []),
        (view(["a", "b", "c"], failed="c", absent="c"), ["add d at a"]),
        (view(["a", "b", "c"], leaving="c", absent="c"), ["add d at a"]),
        (view(["a", "b", "c", "+d"], dead="d", absent="d"), []),
        (view(["a", "b", "c", "d"], dead="c", absent="c"), ["remove c at a"]),
        (view(["a", "b", "c", "d"], dead="c", absent="c", may_shrink=False), []),
        (view(["a", "b", "c", "d"], dead="cd", absent="c"), ["remove d at a"]),
        # a quiescing server gets no leadership, unless no other is left
        (view(["a", "b", "c", "d"], leaving="a", quiescing="b"), ["lead c at a"]),
        (view(["a", "b"], leaving="a", wanted=1, servers="ab", quiescing="b"), ["lead b at a"]),
        # the place of a lost replica is taken by a server of its location, and a surplus one goes where there are two
        (view(["a", "b", "c"], servers="abcdef", dead="c", places=RACKS), ["add f at a"]),
        (view(["a", "b", "c"], servers="abcd", dead="c", places=RACKS), ["add d at a"]),
        (view(["a", "b", "c"], servers="abcdef", leaving="b", places=RACKS), ["add e at a"]),
        (view(["a", "b", "c", "e"], servers="abcdef", places=RACKS), ["remove e at a"]),
        (view(["a", "d", "c", "e"], servers="abcdef", places=RACKS), ["remove d at a"]),
        # the only server of a free location deletes its former replica first
        (view(["a", "d"], servers="abde", outside="b", places=TWO_RACKS), ["delete at b up to 7"]),
        (view(["a", "d"], servers="abde", outside="b", tombstoned="b", places=TWO_RACKS), ["add b at a"]),
        # bad goes before unwanted
        (view(["a", "b", "c", "d", "e"], servers="abcde", dead="d", leaving="e"), ["remove d at a"]),
        # removing the dead one of four must not leave two of which one works
        (view(["a", "b", "c", "d"], dead="c", silent="bd"), []),
        # outsiders
        (view(["a", "b", "c"], outside="d"), ["delete at d up to 7"]),
        (view(["a", "b", "c"], outside="d", dead="d"), []),
        (view(["a", "b", "c"], outside="d", tombstoned="d"), []),
        # creation, alteration
        (view(["a", "b", "c"], created=False, silent="bc", leader=""), ["create at b", "create at c"]),
        (view(["a", "b", "c"], created=False, silent="bc", leader="", dead="c"), ["create at b"]),
        # the first peer's replica is created when others can elect it, or no other can be created
        (view(["a", "b", "c"], created=False, silent="abc", leader=""), ["create at b", "create at c"]),
        (view(["a", "b", "c"], created=False, silent="ac", leader=""), ["create at c", "create at a"]),
        (view(["a", "b", "c"], created=False, silent="abc", leader="", dead="bc"), ["create at a"]),
        (view(["a"], created=False, silent="a", leader="", wanted=1), ["create at a"]),
        (view(["a", "b", "c"], silent="c"), []),
        (view(["a", "b", "c"], wanted_version=2), ["alter at a"]),
        (view(["a", "b", "c"], wanted_version=2, version=2), []),
        (view(["a", "b", "c"], wanted_version=2, leader=""), []),
    ],
)
def test_decisions(cluster: ClusterView, wanted: list[str]) -> None:
    assert orders(cluster) == wanted


def test_what_is_not_committed_is_waited_for() -> None:
    cluster = view(["a", "b", "c"], dead="c")
    leader = report(role="LEADER", peers=("a", "b", "c", "+d"), index=8, commit=7)
    observed = cluster.tablets[T].observed
    pending = replace(observed, reports={**observed.reports, "a": leader})
    cluster = replace(cluster, tablets={T: replace(cluster.tablets[T], observed=pending)})
    assert orders(cluster) == []
    assert orders(replace(cluster, unsettled=(ReplicaAt(T, "a"),))) == ["ask a"]


def test_dropped_replicas_are_deleted_for_good() -> None:
    cluster = replace(view(["a", "b", "c"]), dropped=(ReplicaAt("t000002-p0000", "b"),))
    assert orders(cluster) == ["delete at b up to None"]


def test_copies_are_limited_in_all_and_by_server() -> None:
    tablets = [
        ModelTablet(f"t000001-p{i:04d}", "t000001", 3, configuration("a", "b", "c"), is_created=True) for i in range(30)
    ]
    model = ModelCluster("abcdefgh", tablets)
    for tablet in tablets:
        tablet.replicas = {server: ModelReplica(0) for server in "abc"}
    model.servers["c"].is_alive = False
    model.settle()
    added = [o for o in decide(model.view(), Limits(8, 2), random.Random(0)) if isinstance(o, AddReplica)]
    assert len(added) == 8
    assert max(sum(o.peer.id == s for o in added) for s in "abcdefgh") == 2


def test_a_better_placed_server_is_waited_for_while_it_copies() -> None:
    cluster = view(["a", "d"], servers="abde", places=TWO_RACKS)
    copying = view(["a", "d", "+b"], servers="abde", places=TWO_RACKS).tablets[T]
    one, two = (replace(copying, id=f"t000001-p000{number}") for number in (1, 2))
    busy = replace(cluster, tablets=cluster.tablets | {one.id: one, two.id: two})
    assert shown(decide(busy, Limits(10, 3), random.Random(0))) == ["add b at a"]
    assert shown(decide(busy, Limits(10, 2), random.Random(0))) == []
    nowhere = replace(busy, servers={s: replace(server, location="") for s, server in busy.servers.items()})
    assert shown(decide(nowhere, Limits(10, 2), random.Random(0))) == ["add e at a"]


# ---- whole clusters --------------------------------------------------------------------------------------------------


@st.composite
def clusters(draw: st.DrawFn) -> ModelCluster:
    servers = [f"s{i}" for i in range(draw(st.integers(1, 7)))]
    tablets = []
    for number in range(draw(st.integers(1, 6))):
        wanted = draw(st.sampled_from([n for n in (1, 3, 5) if n <= len(servers)]))
        peers = draw(st.permutations(servers))[:wanted]
        table = f"t00000{number % 2}"
        tablets.append(ModelTablet(f"{table}-p{number:04d}", table, wanted, configuration(*peers)))
    return ModelCluster(servers, tablets)


events = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "kill",
                "revive",
                "fail",
                "damage",
                "leave",
                "stay",
                "drop",
                "alter",
                "maintain",
                "quiesce",
                "replicas",
                "nothing",
            ]
        ),
        st.integers(0, 99),
    ),
    max_size=25,
)


def befall(model: ModelCluster, event: str, number: int) -> None:
    """Applies an event, unless a tablet would permanently lose its majority by it."""
    servers = list(model.servers.values())
    server, tablet = servers[number % len(servers)], list(model.tablets.values())[number % len(model.tablets)]
    had = {t.id for t in model.tablets.values() if model.has_majority(t)}
    match event:
        case "kill":
            server.is_alive = False
            if any(not model.has_majority(t) for t in model.tablets.values() if t.id in had and not t.is_dropped):
                server.is_alive = True
        case "revive":
            server.is_alive = True
        case "leave":
            server.is_leaving = True
        case "stay":
            server.is_leaving = False
        case "replicas":
            tablet.wanted = (1, 3, 5)[number % 3]
        case "maintain":
            server.in_maintenance = not server.in_maintenance
        case "quiesce":
            server.is_quiescing = not server.is_quiescing
        case "drop":
            tablet.is_dropped = number % 5 == 0 or tablet.is_dropped
        case "alter":
            tablet.version += 1
        case "fail" | "damage":
            replica = tablet.replicas.get(server.id)
            if replica is not None and tablet.configuration.peer(server.id) is not None:
                before = replica.state, replica.votes
                replica.state, replica.votes = "FAILED", event == "damage" and (replica.state == "RUNNING" or before[1])
                if tablet.id in had and not model.has_majority(tablet):
                    replica.state, replica.votes = before


def check_maintenance(model: ModelCluster, orders: list[Order]) -> None:
    """Servers in maintenance get no replicas, and are not replaced because they are away."""
    for order in orders:
        if not isinstance(order, AddReplica):
            continue
        assert not model.servers[order.peer.id].in_maintenance
        tablet = model.tablets[order.tablet_id]
        peers = tablet.configuration.peers
        staying = [model.servers[peer.id] for peer in peers if not model.servers[peer.id].is_leaving]
        failed = [id for id, replica in tablet.replicas.items() if replica.state == "FAILED"]
        kept = [s for s in staying if (s.is_alive or s.in_maintenance) and s.id not in failed]
        assert len(kept) < tablet.wanted


@settings(max_examples=examples(300))
@given(clusters(), events, st.integers(0, 1000))
def test_clusters_are_repaired_and_never_harmed(
    model: ModelCluster, happenings: list[tuple[str, int]], seed: int
) -> None:
    """No order does harm (as the model checks), whatever happens between the rounds. Once the events end, every tablet
    has its replicas at live servers that stay, and there are no others."""
    rng = random.Random(seed)
    for event, number in [("nothing", 0), *happenings]:
        befall(model, event, number)
        model.settle()
        given_orders = decide(model.view(), Limits(), rng)
        check_maintenance(model, given_orders)
        rng.shuffle(given_orders)
        for order in given_orders:
            if rng.random() < 0.7:
                model.carry_out(order)
    for server in model.servers.values():
        server.is_alive, server.in_maintenance = True, False
    left: list[Order] = []
    for _ in range(200):
        model.settle()
        left = decide(model.view(), Limits(), rng)
        if not left:
            break
        for order in left:
            model.carry_out(order)
    assert left == []
    staying = {s.id for s in model.servers.values() if not s.is_leaving}
    for tablet in model.tablets.values():
        peers = {peer.id for peer in tablet.configuration.voters}
        if tablet.is_dropped:
            assert not tablet.replicas
        elif len(staying) >= tablet.wanted:
            assert len(peers) == tablet.wanted
            assert peers <= staying
            assert tablet.replicas.keys() == peers
            assert {replica.version for replica in tablet.replicas.values()} == {tablet.version}


# ---- the brake -----------------------------------------------------------------------------------------------------


def many(tablets: int, *, dead: str = "", failed: int = 0) -> ClusterView:
    """Tablets with replicas at a, b and c, of which d, e and f could have copies; the replicas at a of `failed` of them
    have failed."""
    servers = "abcdef"
    views = {s: ServerView(s, f"{s}:1", s not in dead, False) for s in servers}
    found = {}
    for number in range(tablets):
        one = view(["a", "b", "c"], servers=servers, dead=dead, leader="c", failed="a" if number < failed else "")
        id_ = f"t000001-p{number:04d}"
        found[id_] = replace(one.tablets[T], id=id_)
    return ClusterView(views, found)


def copies(cluster: ClusterView) -> int:
    return sum(isinstance(order, AddReplica | RemoveReplica) for order in decide(cluster, Limits(), random.Random(1)))


@pytest.mark.parametrize(
    ("tablets", "dead", "failed", "braked"),
    [
        (20, "", 0, False),
        (20, "a", 0, False),  # 20 of 60: one server is lost, and is replaced
        (20, "ab", 0, True),  # 40 of 60
        (3, "ab", 0, False),  # 6 of 9: a small cluster that has lost two servers may have just that
        (20, "b", 10, False),  # 30 of 60 is not more than half
        (20, "b", 11, True),
        (20, "", 20, False),
    ],
)
def test_nothing_is_replaced_while_most_replicas_do_not_work(
    tablets: int, dead: str, failed: int, braked: bool
) -> None:
    cluster = many(tablets, dead=dead, failed=failed)
    assert is_braked(cluster, Limits()) is braked
    assert bool(copies(cluster)) is (not braked and bool(dead or failed))


def test_the_brake_holds_back_repairs_alone() -> None:
    """New tables are created, dropped ones deleted and altered ones altered; after that, repairs begin."""
    cluster = many(20, dead="ab")
    made = view(["c", "d", "e"], servers="abcdef", dead="ab", leader="", silent="cde", created=False)
    cluster = replace(
        cluster,
        tablets={**cluster.tablets, T + "-new": replace(made.tablets[T], id=T + "-new")},
        dropped=(ReplicaAt("t000009-p0000", "d"),),
    )
    orders = decide(cluster, Limits(), random.Random(1))
    kinds = {type(order) for order in orders}
    assert {CreateReplica, DeleteReplica} <= kinds
    assert not kinds & {AddReplica, RemoveReplica}
    assert copies(many(20, dead="a")) > 0
