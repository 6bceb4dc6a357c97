"""dbt with its adapter for PostgreSQL: a project is built, built again with new rows, and built anew; also by a gateway
in front of a cluster.

dbt needs other versions of packages than the tests, so it has a process of its own. What it sends is kept in
golden/dbt_statements.txt (`--golden=write` captures it anew), which a cheap test replays (`test_dbt_statements`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import nyala
import pytest
from dbt_statements import GOLDEN, captured, read, write
from nyala.doors.audit import AuditLog
from nyala.doors.postgres.server.server import PostgresServer
from nyala.testing import MiniCluster
from pip_support import packages
from postgres_support import served

pytestmark = pytest.mark.slow
PACKAGES = ("dbt-core==1.10.23", "dbt-postgres==1.9.1")
RUN = "import sys; from dbt.cli.main import cli; sys.argv[0] = 'dbt'; cli()"
FILES = {
    "dbt_project.yml": """
        {name: weather, version: "1.0", profile: weather,
         flags: {send_anonymous_usage_stats: false, use_colors: false},
         models: {weather: {+materialized: view}}}
    """,
    "profiles.yml": """
        {weather: {target: nyala, outputs: {nyala: {
          type: postgres, host: 127.0.0.1, port: "{{ env_var('PORT') | int }}", user: me, password: "",
          dbname: weather, schema: public, threads: 1}}}}
    """,
    "seeds/readings.csv": "station,day,celsius\na,2026-01-01,1.5\na,2026-01-02,2.5\nb,2026-01-01,-3.0\n",
    "models/clean.sql": """
        select station, cast(day as date) as day, celsius from {{ ref('readings') }} where celsius is not null
    """,
    "models/warm.sql": "select * from {{ ref('clean') }} where celsius > 0",
    "models/daily.sql": """
        {{ config(materialized='table') }}
        select day, count(*) as readings, max(celsius) as highest from {{ ref('clean') }} group by day
    """,
    "models/latest.sql": """
        {{ config(materialized='incremental', unique_key='station') }}
        select station, max(day) as day from {{ ref('clean') }}
        {% if is_incremental() %} where day > (select max(day) from {{ this }}) {% endif %}
        group by station
    """,
    "models/log.sql": """
        {{ config(materialized='incremental') }}
        select station, day from {{ ref('clean') }}
        {% if is_incremental() %} where day > (select max(day) from {{ this }}) {% endif %}
    """,
    "models/schema.yml": """
        {version: 2, models: [
          {name: daily, columns: [{name: day, data_tests: [unique, not_null]}]},
          {name: clean, columns: [{name: station, data_tests: [
            not_null, {accepted_values: {arguments: {values: [a, b, c]}}}]}]}]}
    """,
    "snapshots/stations.sql": """
        {% snapshot stations %}
        {{ config(unique_key='station', strategy='check', check_cols=['highest'], target_schema='public') }}
        select station, max(celsius) as highest from {{ ref('readings') }} group by station
        {% endsnapshot %}
    """,
}
NODES = 11
"""The seed, the models, the snapshot and the tests of the data."""


def make_project(folder: Path) -> Path:
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder


def build(project: Path, server: PostgresServer, *options: str, **environment: str) -> dict[str, str]:
    """Run `dbt build`; the status of each node."""
    folder = packages(*PACKAGES, dependencies=True)
    environment |= {"PYTHONPATH": str(folder), "PORT": str(server.port), "DBT_PROFILES_DIR": str(project)}
    environment = {**os.environ, **environment}
    command = [sys.executable, "-c", RUN, "--no-version-check", "build", *options]
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    results = project / "target" / "run_results.json"
    assert results.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    found = json.loads(results.read_text(encoding="utf-8"))["results"]
    results.unlink()
    assert done.returncode == 0, "\n".join(str(each["message"]) for each in found) + done.stderr[-2000:]
    return {each["unique_id"]: each["status"] for each in found}


def test_dbt_builds_a_project_again_and_again(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    make_project(tmp_path)
    audit = tmp_path / "audit"
    with (
        nyala.connect(":memory:") as connection,
        closing(AuditLog(audit)) as log,
        served(connection, audit=log) as server,
    ):

        def rows(text: str) -> list[tuple[Any, ...]]:
            return sorted(connection.execute(text).fetchall())

        first = build(tmp_path, server)
        assert len(first) == NODES and set(first.values()) == {"success", "pass"}
        assert rows("SELECT station, day FROM latest") == [("a", date(2026, 1, 2)), ("b", date(2026, 1, 1))]
        assert rows("SELECT station, highest, dbt_valid_to IS NULL FROM stations") == [
            ("a", 2.5, True),
            ("b", -3, True),
        ]

        with (tmp_path / "seeds" / "readings.csv").open("a", encoding="utf-8") as seed:
            seed.write("a,2026-01-03,9.5\nc,2026-01-04,0.5\n")
        assert build(tmp_path, server) == first
        assert rows("SELECT station, day FROM latest") == [
            ("a", date(2026, 1, 3)), ("b", date(2026, 1, 1)), ("c", date(2026, 1, 4))
        ]  # fmt: skip
        assert rows("SELECT count(*) FROM log") == rows("SELECT count(*) FROM clean") == [(5,)]
        assert rows("SELECT count(*) FROM warm") == [(4,)]
        assert rows("SELECT station, highest, dbt_valid_to IS NULL FROM stations") == [
            ("a", 2.5, False), ("a", 9.5, True), ("b", -3, True), ("c", 0.5, True)
        ]  # fmt: skip

        assert build(tmp_path, server, "--full-refresh") == first
        assert [name for name, _ in rows("SHOW TABLES")] == [
            "clean", "daily", "latest", "log", "readings", "stations", "warm"
        ]  # fmt: skip

    statements = captured(audit)
    if pytestconfig.getoption("--golden") == "write":
        write(GOLDEN, statements)
    assert {text for _, text in statements} == {text for _, text in read(GOLDEN)}, "--golden=write saves them"


def test_dbt_builds_a_project_on_a_cluster(tmp_path: Path) -> None:
    make_project(tmp_path)
    commits = {"PGOPTIONS": "-c ddl_commits=on"}
    options = {"durability": "os"}
    with (
        MiniCluster(tservers=1, masters=1, options=options) as cluster,
        nyala.connect(cluster.url) as connection,
        served(connection) as server,
    ):
        first = build(tmp_path, server, **commits)
        assert len(first) == NODES and set(first.values()) == {"success", "pass"}
        assert build(tmp_path, server, "--full-refresh", **commits) == first
        found = connection.execute("SELECT station, day FROM latest ORDER BY station").fetchall()
        assert found == [("a", date(2026, 1, 2)), ("b", date(2026, 1, 1))]
