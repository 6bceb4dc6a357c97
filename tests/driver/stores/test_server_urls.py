"""URLs of clusters, and where the files for TLS come from: options, the URL, the environment."""

from __future__ import annotations

from pathlib import Path

import nyala
import pytest
from nyala.driver.stores.cluster_url import servers, tls_options, with_parameters
from nyala.driver.stores.served_directory import reachable
from nyala.errors import InterfaceError
from nyala.spark.source.options import Use, parse

ALL = {"tls_ca": "/a", "tls_cert": "/b", "tls_key": "/c"}
OTHERS = {"NYALA_TLS_CA": "/x", "NYALA_TLS_CERT": "/y", "NYALA_TLS_KEY": "/z"}
URL = "nyala://one:7051"


def test_options_then_the_url_then_the_environment() -> None:
    url = with_parameters(URL, ALL)
    assert tls_options(URL, {}, {}) == {}
    assert tls_options(URL, {"deadline": 3.0}, OTHERS) == {"tls_ca": "/x", "tls_cert": "/y", "tls_key": "/z"}
    assert tls_options(URL, {name: Path(path) for name, path in ALL.items()}, OTHERS) == ALL
    assert tls_options(url, {}, OTHERS) == ALL
    assert tls_options(f"{URL}/?tls=off", {}, OTHERS) == {}
    assert tls_options(URL, {**ALL, "tls_ca": "here/ca.crt"}, {})["tls_ca"] == str(Path.cwd() / "here/ca.crt")


@pytest.mark.parametrize("url", ["nyala:///shop", "nyala:////data/shop", "nyala:///"])
def test_a_directory_is_not_written_as_a_url(url: str) -> None:
    with pytest.raises(InterfaceError, match=r"For a directory write its path: nyala.connect\('.*SQLAlchemy"):
        nyala.connect(url)


def test_parameters_stand_behind_the_servers() -> None:
    url = with_parameters("nyala://one:7051,two/", {"tls_ca": "/my files/ca&.crt", "tls_cert": "b", "tls_key": "c"})
    assert servers(url) == (("one", 7051), ("two", 7051))
    assert tls_options(url, {}, {})["tls_ca"] == "/my files/ca&.crt"
    assert servers("nyala://one?tls=off") == (("one", 7051),)
    assert with_parameters(URL, {}) == URL
    assert with_parameters(url, {"tls": "off"}) == "nyala://one:7051,two/?tls=off"


@pytest.mark.parametrize(
    ("url", "given", "environment", "told"),
    [
        (f"{URL}/?tls_ca=a", {}, {}, "tls_ca without tls_cert and tls_key: TLS needs all three"),
        (f"{URL}/?tls_ca=a", {}, OTHERS, "tls_ca without tls_cert and tls_key"),
        (URL, {"tls_key": "c"}, OTHERS, "tls_key without tls_ca and tls_cert"),
        (URL, {}, {"NYALA_TLS_CERT": "y"}, "NYALA_TLS_CERT without NYALA_TLS_CA and NYALA_TLS_KEY"),
        (f"{URL}/?tls=off", ALL, {}, "the URL says tls, and the options say tls_ca"),
        (with_parameters(URL, ALL), ALL, {}, "the URL says tls_ca"),
        (f"{URL}/?tls=on", {}, {}, "tls=off excludes other options"),
        (f"{URL}/?tls=off&tls_ca=a", {}, {}, "tls=off excludes other options"),
        (f"{URL}/?tls_ca=a&tls_ca=b", {}, {}, "tls_ca is given twice"),
        (f"{URL}/?tls_cs=a", {}, {}, "there is no tls_cs; did you mean tls_ca"),
    ],
)
def test_what_cannot_be(url: str, given: dict[str, str], environment: dict[str, str], told: str) -> None:
    with pytest.raises(InterfaceError, match=told.replace("?", r"\?")):
        tls_options(url, given, environment)


def test_connect_refuses_halves_before_it_calls_anybody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InterfaceError, match="tls_ca without"):
        nyala.connect("nyala://127.0.0.1:1", tls_ca="a")
    with pytest.raises(InterfaceError, match="tls_ca is an option of a cluster"):
        nyala.connect(tmp_path / "store", **ALL)
    monkeypatch.setenv("NYALA_TLS_KEY", "z")
    with pytest.raises(InterfaceError, match="NYALA_TLS_KEY without"):
        nyala.connect("nyala://127.0.0.1:1")


def test_a_directory_that_is_served_has_no_tls_whatever_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with nyala.connect(tmp_path / "store") as connection:
        url = reachable(tmp_path / "store")
        assert url == connection.serve()
        for name, value in OTHERS.items():
            monkeypatch.setenv(name, value)
        assert reachable(tmp_path / "store") == f"{url}/?tls=off"
        with nyala.connect(f"{url}/?tls=off") as other:
            assert other.execute("SELECT 1").fetchone() == (1,)


def test_spark_takes_them_as_options() -> None:
    given = parse({"url": URL, "dbtable": "t", "tlsCa": "/a", "TLSCERT": "/b", "tlskey": "/c"}, Use.READ)
    assert given.client() == ALL
