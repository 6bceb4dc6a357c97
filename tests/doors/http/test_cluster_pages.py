"""Pages and probes of a cluster's servers, of a gateway and of `nyala serve`, as processes; and in a real browser."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import nyala
import pytest
from forked_processes import Fork, start_nyala
from http_support import ask, post
from nyala.cluster.admin.ports import free_ports
from nyala.doors.http import serve
from prometheus_client.parser import text_string_to_metric_families

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only("starts its own servers")]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 180.0


def eventually(check: Callable[[], bool]) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def answers(url: str, path: str) -> tuple[int, str]:
    """Status and text; (0, reason) if there is no server."""
    try:
        response, text = ask(url, path)
    except OSError as error:
        return 0, str(error)
    return response.status, text


class Servers:
    """One master and three tablet servers, with pages."""

    def __init__(self, directory: Path):
        ports = free_ports(8)
        self.rpc = [f"127.0.0.1:{port}" for port in ports[:4]]
        self.http = [f"http://127.0.0.1:{port}/" for port in ports[4:]]
        self.directory = directory
        self.processes = {number: self._start(number) for number in range(4)}

    def _start(self, number: int) -> Fork | subprocess.Popen[bytes]:
        command = ["master", "--replicas", "3"] if number == 0 else ["tserver", "--election-timeout", "0.5"]
        words = [
            *command, "--dir", str(self.directory / str(number)), "--bind", self.rpc[number],
            "--masters", self.rpc[0], "--durability", "os",
            "--http", self.http[number].removeprefix("http://").rstrip("/"),
            "--slow-log", str(self.directory / f"{number}.slow"), "--slow-seconds", "0",
        ]  # fmt: skip
        with (self.directory / f"{number}.log").open("ab") as log, Path(os.devnull).open("rb") as nothing:
            return start_nyala(words, [nothing.fileno(), log.fileno(), log.fileno()])

    @contextmanager
    def without(self, number: int) -> Iterator[None]:
        """Kills a server; starts it again at the end, for the other tests."""
        self.processes[number].kill()
        self.processes[number].wait()
        try:
            yield
        finally:
            self.processes[number] = self._start(number)

    def wait_until_healthy(self) -> None:
        """Waits until each server's page shows that every replica runs."""
        for url in self.http:
            eventually(lambda url=url: "HEALTHY: every replica runs" in answers(url, "/cluster")[1])  # type: ignore[misc]

    @property
    def url(self) -> str:
        return f"nyala://{self.rpc[0]}"

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers(tmp_path_factory.mktemp("cluster"))
    try:
        for url in servers.http:
            eventually(lambda url=url: answers(url, "/readyz")[0] == 200)  # type: ignore[misc]
        eventually(lambda: answers(servers.http[0], "/cluster")[1].count("ALIVE") == 3)
        with nyala.connect(servers.url) as connection:
            connection.execute("CREATE TABLE readings (k INT PRIMARY KEY, v STRING) PARTITION BY HASH (k) PARTITIONS 2")
            connection.execute("INSERT INTO readings SELECT n, 'v' FROM generate_series(1, 1000) AS g(n)")
        yield servers
    finally:
        servers.stop()


def metrics(url: str) -> dict[str, float]:
    """Values of a server's metrics by name; none if it does not answer."""
    status, text = answers(url, "/metrics")
    families = text_string_to_metric_families(text) if status == 200 else ()
    return {sample.name: sample.value for family in families for sample in family.samples}


def shows(url: str, path: str, *texts: str) -> None:
    """Waits until a page has all of these texts at once."""

    def has_them() -> bool:
        page = answers(url, path)[1]
        return all(text in page for text in texts)

    eventually(has_them)


def test_every_server_shows_the_cluster(servers: Servers) -> None:
    servers.wait_until_healthy()
    for url in servers.http:
        shows(url, "/cluster", *servers.rpc)
        shows(url, "/tables", "readings")
        assert answers(url, "/")[0] == 200


def test_metrics_tell_servers_apart(servers: Servers) -> None:
    servers.wait_until_healthy()
    found: list[dict[str, float]] = []

    def are_ready() -> bool:
        """Each server is, and each of the two tablets has one leader: none has lost an election just now."""
        found[:] = [metrics(url) for url in servers.http]
        return (
            all(values.get("nyala_ready") == 1 for values in found)
            and sum(values["nyala_raft_leaders"] for values in found[1:]) == 2
        )

    eventually(are_ready)
    assert found[0]["nyala_master_is_leader"] == 1
    assert all(values["nyala_calls_total"] >= 0 for values in found)
    assert "2 rowsets" not in answers(servers.http[1], "/table?name=readings")[1]
    for url in servers.http[1:]:
        shows(url, "/tablets", ">readings</a>")
    eventually(lambda: "LEADER, serves" in "".join(answers(url, "/tablets")[1] for url in servers.http[1:]))


@pytest.mark.parametrize("number", [0, 1], ids=["master", "tserver"])
def test_a_slow_statement_of_the_console_is_logged(servers: Servers, number: int) -> None:
    url, path = servers.http[number], servers.directory / f"{number}.slow"
    (token,) = set(re.findall(r'name="token" value="([^"]+)"', answers(url, "/console")[1]))
    _, page = post(url, "/console", sql="SELECT count(*) FROM readings WHERE k + 0 > 987654", token=token)
    assert "987654" in page, "the form has the statement"
    eventually(lambda: "k + ?" in path.read_text())
    assert "987654" not in path.read_text()


def test_the_death_of_a_server_is_shown_by_the_others(servers: Servers) -> None:
    servers.wait_until_healthy()
    with servers.without(3):
        for url in servers.http[:3]:
            shows(url, "/cluster", "does not answer", "UNDER_REPLICATED", "silent", servers.rpc[3])
        gateway = subprocess.Popen(
            [sys.executable, "-m", "nyala", "gateway", servers.url, "--http", "127.0.0.1:0"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            assert gateway.stdout is not None
            url = gateway.stdout.readline().strip()
            eventually(lambda: answers(url, "/readyz")[0] == 200)
            shows(url, "/cluster", "UNDER_REPLICATED")
            shows(url, "/tables", "1,000")
        finally:
            gateway.send_signal(signal.SIGTERM)
            assert gateway.wait(60) == 0
            gateway.stdout.close()  # type: ignore[union-attr]


def test_serve_prints_the_url_of_its_pages_and_drains(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "nyala", "serve", str(tmp_path / "store"), "--http", "127.0.0.1:0"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        nyala_url, url = process.stdout.readline().strip(), process.stdout.readline().strip()
        assert answers(url, "/readyz") == (200, "ready\n")
        with nyala.connect(nyala_url) as connection:
            connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
        assert ">t</a>" in answers(url, "/tables")[1]
        assert "--http" in answers(url, "/settings")[1]
        assert answers(url, "/console")[0] == 200
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        process.stdout.close()  # type: ignore[union-attr]


@pytest.mark.skipif(BROWSER is None, reason="needs chromium (apt-get install chromium)")
@pytest.mark.parametrize("width", [1300, 500])
def test_a_browser_shows_pages_without_complaints(tmp_path: Path, width: int) -> None:
    with nyala.connect(":memory:") as connection:
        name = "x<script>document.title='seized'</script>"
        connection.execute(f'CREATE TABLE "{name}" (k INT PRIMARY KEY)')
        connection.execute(f'INSERT INTO "{name}" VALUES (1), (5)')
        connection.store.flush()
        with serve(connection) as server:
            picture = tmp_path / "page.png"
            done = subprocess.run(
                [
                    str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                    f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900", f"--screenshot={picture}",
                    f"{server.url}table?name={name}",
                ],
                capture_output=True, text=True, timeout=120,
            )  # fmt: skip
            assert picture.stat().st_size > 5_000, done.stderr
            complaints = [line for line in done.stderr.splitlines() if re.search(r"CONSOLE|Refused|violates", line)]
            assert complaints == []
