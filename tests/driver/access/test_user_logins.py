"""Users of `nyala://` connections, on a served directory and on a cluster: who gets in, and what servers refuse to a
client that checks nothing itself."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nyala
import pytest
from nyala.cluster.client.client import Client
from nyala.cluster.client.options import ClientOptions
from nyala.cluster.raft.messages import Peer
from nyala.cluster.wire.calls.rpc import Channel, TokenSource
from nyala.cluster.wire.messages.methods import (
    GetCatalog,
    GetStatus,
    Heartbeat,
    LocateTablets,
    ReadRow,
    Request,
)
from nyala.cluster.wire.messages.user_methods import MakeTaskToken, SetRights
from nyala.driver.session.identity import act_as
from nyala.errors import (
    AccessDenied,
    InterfaceError,
    InvalidPassword,
    LoginExpired,
    LoginNeeded,
    NotNullViolation,
    NotSupportedError,
    PermissionDenied,
)
from nyala.model.access.roles import Role
from nyala.model.access.tokens import TASK_SECONDS, TokenKey, make_token, token_expiry
from nyala.model.clock import HybridClock
from nyala.testing import MiniCluster

from tests.driver.access.test_statement_rights import FORMS, ON_W

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only("opens served stores and clusters of its own")]

SCHEMA = """
CREATE TABLE t (k INT PRIMARY KEY, v INT);
INSERT INTO t VALUES (1, 1), (2, 2);
CREATE TABLE o (k INT PRIMARY KEY, v INT);
INSERT INTO o VALUES (1, 1);
CREATE VIEW w AS SELECT k, v FROM o;
CREATE USER ann PASSWORD 'of ann';
CREATE USER eve PASSWORD 'of eve';
CREATE ROLE readers;
CREATE USER late PASSWORD 'of late' VALID UNTIL '2020-01-01';
ALTER USER nyala PASSWORD 'of nyala';
"""
HARMLESS = {
    "SELECT 1 FROM t LIMIT 0",
    "WITH x AS (SELECT * FROM t) SELECT 1",
    "EXPLAIN SELECT * FROM t",
    "EXPLAIN DELETE FROM t",
    "SHOW STATS FOR t",
}
"""Statements of `FORMS` that read no rows and change none, so that servers may never hear of them; of statistics, the
client shows what it has."""


@pytest.fixture(scope="module", params=["served", "cluster"])
def owner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[nyala.Connection]:
    """A connection with all rights, and without a user."""
    with contextlib.ExitStack() as stack:
        if request.param == "served":
            url = stack.enter_context(nyala.connect(tmp_path_factory.mktemp("store"))).serve()
        else:
            url = stack.enter_context(MiniCluster(tservers=1, masters=1, options={"durability": "os"})).url
        connection = stack.enter_context(nyala.connect(url))
        connection.execute(SCHEMA)
        yield connection


@pytest.fixture(autouse=True)
def without_grants(owner: nyala.Connection) -> Iterator[None]:
    yield
    owner.execute("REVOKE ALL ON t, o, w FROM ann; REVOKE CREATE ON SCHEMA public FROM ann")


def login(owner: nyala.Connection, user: str, password: str | None = None) -> nyala.Connection:
    return nyala.connect(owner.store.name, user=user, password=f"of {user}" if password is None else password)


def without_binder(connection: nyala.Connection) -> nyala.Connection:
    """A client that sends all requests, whatever its rights are."""
    found = connection.duplicate()
    act_as(found.session, None)
    return found


# ---- who gets in -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "password"), [("ann", "wrong"), ("ann", ""), ("nobody", "x"), ("readers", "x"), ("late", "of late")]
)
def test_a_refusal_says_nothing_about_the_user(owner: nyala.Connection, user: str, password: str) -> None:
    with pytest.raises(InvalidPassword, match=f'^password authentication failed for user "{user}"$'):
        login(owner, user, password)


def test_a_user_is_the_sessions_user(owner: nyala.Connection) -> None:
    with login(owner, "ann") as ann:
        assert ann.execute("SELECT current_user, session_user").fetchone() == ("ann", "ann")
        with pytest.raises(PermissionDenied):
            ann.execute("SET ROLE nyala")
        ann.execute("ALTER USER ann PASSWORD 'of ann'")
    with login(owner, "nyala") as own:
        assert own.execute("SELECT count(*) FROM t").fetchone() == (2,)


def test_urls_name_users_and_show_no_password(owner: nyala.Connection) -> None:
    owner.execute("ALTER USER ann PASSWORD 'a:b@c/d'")
    hosts = owner.store.name.partition("://")[2]
    with nyala.connect(f"nyala://ann:a%3Ab%40c%2Fd@{hosts}") as ann:
        assert ann.execute("SELECT current_user").fetchone() == ("ann",)
        for text in (repr(ann), repr(ann.store), repr(vars(ann.session)), str(ann.session.target)):
            assert "a:b@c" not in text and "a%3Ab" not in text
    owner.execute("ALTER USER ann PASSWORD 'of ann'")
    with pytest.raises(InterfaceError, match="the URL names a user, and so do the options") as caught:
        nyala.connect(f"nyala://ann:secret@{hosts}", user="ann")
    assert "secret" not in str(caught.value)


def test_the_environment_names_a_user(owner: nyala.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NYALA_USER", "ann")
    monkeypatch.setenv("NYALA_PASSWORD", "of ann")
    with nyala.connect(owner.store.name) as ann:
        assert ann.execute("SELECT current_user").fetchone() == ("ann",)


def test_only_superusers_see_verifiers(owner: nyala.Connection) -> None:
    with login(owner, "ann") as ann, login(owner, "nyala") as own:
        assert own.store.access.roles["ann"].verifier.startswith("SCRAM-SHA-256$")
        assert {role.verifier for role in ann.store.access.roles.values()} == {""}


# ---- tokens ----------------------------------------------------------------------------------------------------------


class _Fixed(TokenSource):
    def __init__(self, token: bytes) -> None:
        self.token = token


def _login_of(connection: nyala.Connection) -> TokenSource:
    client = connection.store
    assert isinstance(client, Client) and client._login is not None
    return client._login


def test_forged_and_expired_tokens_are_refused(owner: nyala.Connection) -> None:
    with login(owner, "ann") as ann:
        own = _login_of(ann).token
    changed = own.replace(b"ann", b"eve")
    key = TokenKey(1, b"guessed", int(time.time()))
    tablet = owner.store._catalog.known(owner.store.table("t")).tablet_ids[0]
    reading = ReadRow(tablet_id=tablet, schema_version=0, key=(1,), columns=("k", "v"))
    master = owner.store.name.partition("://")[2]
    places = _call(master, LocateTablets(tablet_ids=(tablet,)), own).tablets
    for address in {master, *(replica.address for place in places for replica in place.replicas)}:
        for token in (
            changed,
            own[:-1],
            own + b"x",
            b"nyala",
            make_token(Role("nyala", number=10), time.time() + 9.0, key),
        ):
            for request in (GetCatalog(), reading):
                with pytest.raises(LoginExpired):
                    _call(address, request, token)
        assert _call(address, GetStatus(), changed).address == address


def _call(address: str, request: Request, token: bytes) -> Any:
    channel = Channel(address, HybridClock(), tokens=_Fixed(token))
    try:
        return channel.call(request)
    finally:
        channel.close()


def test_users_take_no_part_among_servers(owner: nyala.Connection) -> None:
    with login(owner, "nyala") as own:
        token = _login_of(own).token
    address = owner.store.name.partition("://")[2]
    for request in (SetRights(rights={}), Heartbeat(server=Peer("x", "x:1"), sequence=1, is_full=True)):
        with pytest.raises(AccessDenied, match="is for servers, and not for user nyala"):
            _call(address, request, token)


def test_a_refused_token_is_renewed_while_statements_wait(owner: nyala.Connection) -> None:
    owner.execute("GRANT SELECT ON t TO ann")
    with login(owner, "ann") as ann:
        source = _login_of(ann)
        for _ in range(2):
            source.token = b"lost"
            assert ann.execute("SELECT v FROM t WHERE k = 1").fetchone() == (1,)
            assert source.token != b"lost"


def test_a_dropped_user_is_out(owner: nyala.Connection) -> None:
    owner.execute("CREATE USER gone PASSWORD 'of gone'; GRANT SELECT ON t TO gone")
    with login(owner, "gone") as gone, without_binder(gone) as raw:
        assert raw.execute("SELECT v FROM t WHERE k = 1").fetchone() == (1,)
        owner.execute("REVOKE ALL ON t FROM gone; DROP USER gone")
        with pytest.raises(LoginNeeded, match="user gone has been dropped"):
            raw.execute("SELECT v FROM t WHERE k = 1")


ENDINGS = {
    "another password": "ALTER USER gone PASSWORD 'another'",
    "no password": "ALTER USER gone PASSWORD NULL",
    "an expired password": "ALTER USER gone VALID UNTIL '2020-01-01'",
    "no login": "ALTER USER gone NOLOGIN",
    "another user of that name": "DROP USER gone; CREATE USER gone PASSWORD 'of gone'",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_tokens_end_with_what_they_prove(owner: nyala.Connection, ending: str) -> None:
    owner.execute("CREATE USER gone PASSWORD 'of gone'; GRANT SELECT ON t TO gone")
    with login(owner, "gone") as gone:
        assert isinstance(gone.store, Client)
        tokens = _login_of(gone).token, gone.store.task_token(60.0)
    calls = [(address, request, token) for address, request in _requests(owner) for token in tokens]
    assert len(set(tokens)) == 2 and all(_call(*call) for call in calls)
    owner.execute("REVOKE ALL ON t FROM gone; " + ENDINGS[ending])
    for call in calls:
        with pytest.raises((LoginExpired, LoginNeeded), match="user gone"):
            _call(*call)
    owner.execute("DROP USER gone")


def test_a_client_is_out_when_its_password_is_another(owner: nyala.Connection) -> None:
    owner.execute("CREATE USER gone PASSWORD 'of gone'; GRANT SELECT ON t TO gone")
    with login(owner, "gone") as gone, without_binder(gone) as raw:
        assert raw.execute("SELECT count(*) FROM t").fetchone() == (2,)
        owner.execute("ALTER USER gone PASSWORD 'another'")
        for text in ("SELECT count(*) FROM t WHERE v >= 0", "SELECT v FROM t WHERE k = 1"):
            with pytest.raises(InvalidPassword):
                raw.execute(text).fetchall()
    with login(owner, "gone", "another") as again:
        assert again.execute("SELECT count(*) FROM t").fetchone() == (2,)
    owner.execute("REVOKE ALL ON t FROM gone; DROP USER gone")


def test_a_token_for_tasks_has_the_users_rights_and_makes_no_other(owner: nyala.Connection) -> None:
    owner.execute("GRANT SELECT ON t TO ann")
    with login(owner, "ann") as ann:
        assert isinstance(ann.store, Client)
        token = ann.store.task_token(60.0)
        assert ann.store.task_token(60.0) == token  # a fresh one is given again
        assert 0 < token_expiry(ann.store.task_token(1e9)) - time.time() <= TASK_SECONDS
    master = owner.store.name.removeprefix("nyala://").rstrip("/").split(":")
    with Client([(master[0], int(master[1]))], ClientOptions(token=token)) as tasks:
        assert tasks.user == "ann" and tasks.task_token() == token
        assert tasks.read_row(tasks.table("t"), (1,), ("v",)) == (1,)
        with pytest.raises(PermissionDenied, match="for table o: user ann needs"):
            tasks.read_row(tasks.table("o"), (1,), ("v",))
        with pytest.raises(AccessDenied, match="a token for tasks makes no other"):
            _call(_requests(owner)[0][0], MakeTaskToken(seconds=9.0), token)
        owner.execute("ALTER USER ann PASSWORD 'of ann'")
        with pytest.raises(LoginNeeded, match="the token for tasks of user ann was refused"):
            tasks.read_row(tasks.table("t"), (1,), ("v",))
    with pytest.raises(LoginNeeded, match="the token for tasks of user ann has expired at"):
        Client([(master[0], int(master[1]))], ClientOptions(token=make_token(Role("ann"), 1.0, TokenKey(1, b"", 0))))
    with pytest.raises(AccessDenied, match="valid for some seconds"), login(owner, "ann") as ann:
        assert isinstance(ann.store, Client)
        ann.store.task_token(0.0)
    assert isinstance(owner.store, Client) and owner.store.task_token() == b""


def _requests(owner: nyala.Connection) -> list[tuple[str, Request]]:
    """A request for the master, and one for each server that has the tablet of `t`."""
    master = owner.store.name.partition("://")[2]
    tablet = owner.store._catalog.known(owner.store.table("t")).tablet_ids[0]
    reading = ReadRow(tablet_id=tablet, schema_version=0, key=(1,), columns=("k", "v"))
    places = _call(master, LocateTablets(tablet_ids=(tablet,)), b"").tablets
    return [(master, GetCatalog()), *((replica.address, reading) for place in places for replica in place.replicas)]


# ---- what servers refuse ---------------------------------------------------------------------------------------------


def test_servers_refuse_what_the_user_may_not_do(owner: nyala.Connection) -> None:
    before = owner.execute("SELECT * FROM t ORDER BY k").fetchall()
    with login(owner, "eve") as eve:
        for text, _ in FORMS:
            with without_binder(eve) as raw:
                if text in HARMLESS:
                    raw.execute(text).close()
                else:
                    with pytest.raises((PermissionDenied, NotNullViolation), match=r"user eve|not for eve|NULL"):
                        raw.execute(text).fetchall()
    assert owner.execute("SELECT * FROM t ORDER BY k").fetchall() == before


def test_servers_allow_what_the_user_may_do(owner: nyala.Connection) -> None:
    with login(owner, "ann") as ann:
        for text, rights in FORMS:
            if ON_W in rights:
                continue  # its owner's rights on the table are lent by doors alone
            owner.execute("".join(f"GRANT {right} TO ann;" for right in rights))
            ann.store.refresh_catalog()
            if text.startswith("CREATE"):
                ann.execute(f"{text}; DROP {text.split()[1]} n")
            else:
                ann.begin()
                with contextlib.suppress(nyala.IntegrityError):
                    ann.execute(text).close()
                ann.rollback()
            owner.execute("REVOKE ALL ON t, o FROM ann; REVOKE CREATE ON SCHEMA public FROM ann")


def test_a_view_does_not_lend_its_owners_rights_to_clients(owner: nyala.Connection) -> None:
    owner.execute("GRANT SELECT ON w TO ann")
    with login(owner, "ann") as ann:
        with pytest.raises(PermissionDenied, match="a view shows its owner's tables to others through a gateway only"):
            ann.execute("SELECT * FROM w").fetchall()
        owner.execute("GRANT SELECT ON o TO ann")
        ann.store.refresh_catalog()
        assert ann.execute("SELECT * FROM w").fetchall() == [(1, 1)]


ROADS = {
    "a planned query": "SELECT sum(v) FROM t WHERE v > 0",
    "a row by its key": "SELECT v FROM t WHERE k = 1",
    "a row": "UPSERT INTO t VALUES (1, 1)",
    "rows": "UPSERT INTO t VALUES (1, 1), (2, 2)",
    "many rows": "UPSERT INTO t SELECT k, v FROM t",
    "a deletion": "DELETE FROM t WHERE k = 7",
}


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("in_transaction", [False, True], ids=["", "in a transaction"])
def test_servers_hold_a_revoked_right_at_once(owner: nyala.Connection, road: str, in_transaction: bool) -> None:
    owner.execute("GRANT ALL ON t TO ann")
    with login(owner, "ann") as ann, without_binder(ann) as raw:
        for text in (f"BEGIN; {ROADS[road]}; COMMIT" if in_transaction else ROADS[road],) * 2:
            raw.execute(text).close()
        owner.execute("REVOKE ALL ON t FROM ann")
        with pytest.raises(PermissionDenied, match="permission denied for table t: user ann needs"):
            raw.execute(f"BEGIN; {ROADS[road]}; COMMIT" if in_transaction else ROADS[road]).fetchall()


def test_the_owner_of_a_table_is_its_creator(owner: nyala.Connection) -> None:
    owner.execute("GRANT CREATE ON SCHEMA public TO ann")
    with login(owner, "ann") as ann:
        ann.execute("CREATE TABLE hers (k INT PRIMARY KEY, v INT); INSERT INTO hers VALUES (1, 1)")
        assert ann.store.table("hers").owner == "ann"
        ann.execute(
            "ALTER TABLE hers ADD COLUMN more INT; ANALYZE hers; COMPACT TABLE hers; GRANT SELECT ON hers TO eve"
        )
        with login(owner, "eve") as eve:
            assert eve.execute("SELECT count(*) FROM hers").fetchone() == (1,)
            with without_binder(eve) as raw, pytest.raises(PermissionDenied, match="user eve needs INSERT"):
                raw.execute("INSERT INTO hers VALUES (2, 2, 2)")
        ann.execute("DROP TABLE hers")


def test_a_store_without_users_has_no_logins(tmp_path: Path) -> None:
    with nyala.connect(tmp_path / "store") as connection:
        url = connection.serve()
        with pytest.raises(LoginNeeded, match="there are no users here"):
            nyala.connect(url, user="ann", password="x")


def test_an_earlier_server_has_no_users(owner: nyala.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise nyala.errors.ProtocolError("a malformed request: Invalid value 'change_access'")

    with monkeypatch.context() as patched:
        patched.setattr(owner.store, "_change", refuse)
        with pytest.raises(NotSupportedError, match="an earlier version of nyala, which keeps no users"):
            owner.execute("CREATE USER ben")
