"""The files of deploy/: units that systemd accepts, commands that nyala accepts, and servers that name each other."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from nyala.cli.commands.all_commands import nyala_parser

DEPLOY = Path(__file__).parent.parent / "deploy"
UNITS = sorted((DEPLOY / "systemd").iterdir())


def parsed(words: list[str]) -> Namespace:
    """The arguments of a command line of nyala, without its name."""
    return nyala_parser().parse_args(words)


def check_masters(servers: list[Namespace]) -> None:
    """Asserts that all servers name the same masters, and that these run."""
    masters = {server.advertise for server in servers if server.run.endswith("master_command")}
    assert masters
    for server in servers:
        assert set(server.masters.split(",")) == masters
    assert len({server.advertise for server in servers}) == len(servers)


# ---- systemd ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_commands_of_units_are_those_of_nyala(unit: Path) -> None:
    for line in re.findall(r"^Exec(?:Start|Stop)=-?(.*)$", unit.read_text(), re.MULTILINE):
        program, *words = shlex.split(line.replace("$OPTIONS", ""))
        assert program == "/opt/nyala/bin/nyala"
        parsed([word.replace("${ADDRESS}", "10.0.0.1:7051").replace("${MASTERS}", "10.0.0.1:7051") for word in words])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    names = []
    for unit in UNITS:
        names.append(tmp_path / unit.name.replace("@.", "@weather."))
        names[-1].write_text(unit.read_text().replace("/opt/nyala/bin/nyala", "/bin/true").replace("User=nyala\n", ""))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *names], capture_output=True, text=True)
    complaints = [line for line in done.stderr.splitlines() if "nyala" in line]
    assert (done.returncode, complaints) == (0, [])


# ---- containers ------------------------------------------------------------------------------------------------------


def test_the_servers_of_the_compose_file_find_each_other() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    servers = {name: parsed(shlex.split(service["command"])) for name, service in compose["services"].items()}
    assert len(servers) == 6
    for name, server in servers.items():
        assert server.advertise.partition(":")[0] == name
        (volume,) = compose["services"][name]["volumes"]
        source, _, target = volume.partition(":")
        assert source in compose["volumes"] and str(server.dir).startswith(f"{target}/")
    check_masters(list(servers.values()))


def pods(resources: list[dict[str, Any]]) -> Iterator[Namespace]:
    """The arguments of each pod of the StatefulSets."""
    for resource in resources:
        if resource["kind"] != "StatefulSet":
            continue
        (container,) = resource["spec"]["template"]["spec"]["containers"]
        ports = {port["containerPort"] for port in container["ports"]}
        for number in range(resource["spec"]["replicas"]):
            pod = f"{resource['metadata']['name']}-{number}"
            server = parsed([word.replace("$(POD)", pod) for word in container["args"]])
            assert server.advertise.partition(":")[0] == f"{pod}.{resource['spec']['serviceName']}"
            assert int(server.bind.rpartition(":")[2]) in ports
            assert container["readinessProbe"]["tcpSocket"]["port"] in ports
            (mount,) = container["volumeMounts"]
            assert str(server.dir).startswith(f"{mount['mountPath']}/")
            if "lifecycle" in container:
                check_stop(container["lifecycle"]["preStop"]["exec"]["command"], pod, server)
            yield server


def check_stop(command: list[str], pod: str, server: Namespace) -> None:
    """Asserts that a pod quiesces itself, at its own masters, before it is stopped."""
    shell, option, line = command
    program, *words = shlex.split(line.replace("$POD", pod))
    assert (shell, option, program) == ("sh", "-c", "nyala")
    stop = parsed(words)
    assert (stop.cluster, stop.server) == (f"nyala://{server.masters}", server.advertise)
    assert stop.wait and not stop.end


def test_the_pods_of_the_kubernetes_manifest_find_each_other() -> None:
    resources = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "nyala.yaml").read_text()))
    check_masters(list(pods(resources)))
    services = {r["metadata"]["name"]: r["spec"] for r in resources if r["kind"] == "Service"}
    for resource in resources:
        if resource["kind"] == "StatefulSet":
            labels = resource["spec"]["template"]["metadata"]["labels"]
            assert labels == resource["spec"]["selector"]["matchLabels"]
            assert labels == services[resource["spec"]["serviceName"]]["selector"]


def test_the_image_installs_this_package_and_runs_nyala() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    assert "COPY . /source" in lines and 'ENTRYPOINT ["nyala"]' in lines
    assert any("pip install" in line and "'/source[tls]'" in line for line in lines)
