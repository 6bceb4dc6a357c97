"""The files of deploy/: units that systemd accepts, commands that nyala accepts, and servers that name each other."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nyala
import pytest
import yaml
from nyala.cli.commands.all_commands import nyala_parser
from nyala.doors.http.exposition import exposition
from nyala.model.metric_definitions import METRICS, MetricKind
from nyala.model.metrics import collect

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


# ---- monitoring ------------------------------------------------------------------------------------------------------

ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
DASHBOARD = DEPLOY / "grafana" / "nyala.json"
OF_PROMETHEUS = frozenset({"instance", "le", "job"})


def check_expression(expression: str) -> None:
    """Asserts that an expression of Prometheus reads metrics and labels that nyala has."""
    names = re.findall(r"\bnyala_[a-z_]+", expression)
    assert names or "up{" in expression, expression
    for name in names:
        metric = METRICS.get(name) or METRICS[re.sub(r"_(bucket|count|sum)$", "", name)]
        assert (metric.name != name) == (metric.kind is MetricKind.HISTOGRAM), f"{name}: {metric.kind}"
        for matched in re.findall(rf"\b{name}{{([^}}]*)}}", expression):
            assert set(re.findall(r"(\w+)\s*=", matched)) <= {*metric.labels, *OF_PROMETHEUS}, expression
        if metric.kind is MetricKind.COUNTER:
            assert re.search(rf"(rate|increase)\({name}\b", expression), f"{expression}: a counter is read by its rate"
    known = OF_PROMETHEUS.union(*(METRICS[name].labels for name in names if name in METRICS))
    for grouped in re.findall(r"\bby \(([^)]*)\)", expression):
        assert {name.strip() for name in grouped.split(",")} <= known, expression
    assert expression.count("(") == expression.count(")")


def test_alerts_read_metrics_that_there_are_and_say_what_to_do() -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 10
    for rule in rules:
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        check_expression(rule["expr"])
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "action"}


PROMTOOL = shutil.which("promtool", path=str(Path(sys.prefix) / "bin")) or shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="needs promtool (make promtool)")


def promtool(*words: str | Path, given: str = "") -> None:
    """Runs promtool, which must have nothing to say against its input."""
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *words], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_promtool_accepts_the_alerts() -> None:
    promtool("check", "rules", ALERTS)


@needs_promtool
def test_promtool_accepts_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    found = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    rules = [
        {"record": f"panel:{number}", "expr": expression.replace("$__rate_interval", "5m").replace("$instance", ".*")}
        for number, expression in enumerate(found)
    ]
    assert len(rules) > 20
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", tmp_path / "rules.yaml")


@needs_promtool
@pytest.mark.embedded_only("reads the metrics of this process")
def test_promtool_accepts_the_metrics_of_a_store() -> None:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
        connection.execute("SELECT count(*) FROM t").fetchall()
        text, _ = exposition(collect())
    assert "nyala_maintenance_queued" in text
    promtool("check", "metrics", given=text)


ALARMING = {  # alert: series that raise it after twenty minutes, and labels of the alert
    "NyalaDown": ({'up{job="nyala", instance="a"}': "0x40"}, {"job": "nyala", "instance": "a"}),
    "NyalaNotReady": ({'nyala_ready{instance="a"}': "0x40"}, {"instance": "a"}),
    "NyalaNoLeadingMaster": (
        {'nyala_master_is_leader{instance="a"}': "0x40", 'nyala_master_is_leader{instance="b"}': "0x40"},
        {},
    ),
    "NyalaReplicaBehind": ({'nyala_raft_commit_lag_entries{instance="a"}': "20000x40"}, {"instance": "a"}),
    "NyalaTransactionWithoutOutcome": ({'nyala_prepared_seconds{instance="a"}': "61x40"}, {"instance": "a"}),
    "NyalaTabletQuarantined": ({'nyala_tablets_quarantined{instance="a"}': "1x40"}, {"instance": "a"}),
    "NyalaMemoryFull": (
        {
            'nyala_memory_bytes{instance="a", kind="rows"}': "60x40",
            'nyala_memory_bytes{instance="a", kind="pages"}': "37x40",
            'nyala_memory_limit_bytes{instance="a"}': "100x40",
        },
        {"instance": "a"},
    ),
}


@needs_promtool
@pytest.mark.parametrize("name", ALARMING)
def test_alerts_fire_for_the_fault_and_not_without(name: str, tmp_path: Path) -> None:
    """By promtool's own evaluation: with the series of the fault, and with those of a healthy server."""
    (rule,) = [r for g in yaml.safe_load(ALERTS.read_text())["groups"] for r in g["rules"] if r["alert"] == name]
    series, labels = ALARMING[name]
    expected = {"exp_labels": {**rule["labels"], **labels}}
    healthy = {
        'up{job="nyala", instance="a"}': "1x40",
        'nyala_ready{instance="a"}': "1x40",
        'nyala_master_is_leader{instance="a"}': "1x40",
        'nyala_memory_bytes{instance="a", kind="rows"}': "10x40",
        'nyala_memory_limit_bytes{instance="a"}': "100x40",
    }
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in given.items()],
            "alert_rule_test": [{"eval_time": "20m", "alertname": name, "exp_alerts": alerts}],
        }
        for given, alerts in ((series, [expected]), (healthy, []))
    ]
    (tmp_path / "rule.yaml").write_text(
        yaml.safe_dump({"groups": [{"name": "one", "rules": [{k: v for k, v in rule.items() if k != "annotations"}]}]})
    )
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump({"rule_files": ["rule.yaml"], "tests": tests}))
    promtool("test", "rules", tmp_path / "tests.yaml")


def test_the_dashboard_reads_metrics_that_there_are() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in panels:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        for target in panel["targets"]:
            check_expression(target["expr"])


def test_every_metric_is_sampled_somewhere() -> None:
    package = Path(nyala.__file__).parent
    rooms = ("model", "storage", "net", "cluster", "driver", "doors")
    sources = "".join(
        p.read_text() for room in rooms for p in (package / room).rglob("*.py") if "definitions" not in p.name
    )
    assert [name for name in METRICS if f'Sample("{name}"' not in sources] == []


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
    assert len(servers) == 7
    for name, server in servers.items():
        assert server.advertise.partition(":")[0] == name
        (volume,) = compose["services"][name]["volumes"]
        source, _, target = volume.partition(":")
        assert f"http://{server.http}/healthz" in compose["services"][name]["healthcheck"]["test"][-1]
        assert source in compose["volumes"] and str(server.dir).startswith(f"{target}/")
    waiting = servers.pop("master4")
    check_masters(list(servers.values()))
    check_waits(waiting, servers["master1"])
    assert compose["services"]["master4"]["profiles"] == ["new-master"]


def check_waits(waiting: Namespace, present: Namespace) -> None:
    """Asserts that a master waits to be added to others: with its own address among its masters it would begin a
    cluster."""
    assert waiting.run.endswith("master_command")
    assert waiting.masters == present.masters and waiting.advertise not in waiting.masters.split(",")


def test_the_comments_of_the_compose_file_are_commands_of_nyala() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    words = [line.partition(" exec master1 nyala ")[2] for line in text.splitlines() if " exec " in line]
    found = [parsed(shlex.split(line)) for line in words]
    assert [one.run.rpartition(":")[2] for one in found] == ["main", "replace_command"]
    assert (found[1].master, found[1].address) == ("master2:7051", "master4:7051")


def test_the_job_of_kubernetes_adds_the_pods_of_a_larger_set() -> None:
    resources = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "nyala.yaml").read_text()))
    (masters,) = [r for r in resources if r["kind"] == "StatefulSet" and r["metadata"]["name"] == "master"]
    masters["spec"]["replicas"] = 5
    first, *_, fourth, fifth = pods([masters])
    for waiting in (fourth, fifth):
        check_waits(waiting, first)
    job = yaml.safe_load((DEPLOY / "kubernetes" / "add-masters.yaml").read_text())["spec"]["template"]["spec"]
    added = [parsed(container["args"]) for container in job["initContainers"]]
    assert [one.address for one in added] == [fourth.advertise, fifth.advertise]
    (shown,) = [parsed(container["args"]) for container in job["containers"]]
    for one in (*added, shown):
        assert one.cluster == f"nyala://{first.masters}"
    assert [one.run.rpartition(":")[2] for one in (*added, shown)] == ["add_command", "add_command", "list_command"]


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
            for probe, page in (("startupProbe", "healthz"), ("readinessProbe", "readyz")):
                assert f"http://{server.http}/{page}" in container[probe]["exec"]["command"][-1]
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
