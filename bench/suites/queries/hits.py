"""The table `hits` of ClickBench: web analytics in 105 columns, generated.

The real table has 100 million rows of July 2013. The generated one has its columns, its key, and roughly its
cardinalities and shares: most columns are small codes, 87 % of the search phrases and 95 % of the phone models are
empty, texts are URLs, and titles and phrases half in Cyrillic; URLs are skewed like 1 / rank, users and addresses less.
`cardinalities` declares the distinct values; tests hold the data against them.

Values that a query names exist: counter 62, one user, one URL's and one referer's hash, hosts of Google.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..model import TableSpec
from .draws import (
    by_rank,
    generator,
    identifiers,
    joined,
    number_texts,
    phrase,
    pieces,
    record_batch,
    words,
    zipf,
)

SEED: Final = 2013
KEY: Final = ("counterid", "eventdate", "userid", "eventtime", "watchid")
USER: Final = 435090932899640449
URL_HASH: Final = 2868770270353813622
REFERER_HASH: Final = 3594120000172545465
COUNTER: Final = 62
_MICROSECONDS: Final = 1_000_000
_DAY: Final = 86_400
_FIRST_DAY: Final = 15_887
"""2013-07-01, in days since 1970."""

Draw = Callable[[np.random.Generator, int], np.ndarray]


def _flag(share: float) -> Draw:
    return lambda rng, count: rng.random(count) < share


def _code(values: int, skew: float = 1.2) -> Draw:
    return lambda rng, count: zipf(rng, values, count, skew)


def _sparse(share: float, values: int) -> Draw:
    """0, but for a share of the rows codes from 1."""
    return lambda rng, count: np.where(rng.random(count) < share, zipf(rng, values, count) + 1, 0)


def _uniform(low: int, high: int) -> Draw:
    return lambda rng, count: rng.integers(low, high, count)


def _one_of(*values: int) -> Draw:
    return lambda rng, count: np.array(values)[zipf(rng, len(values), count)]


def _timing(share: float, most: int) -> Draw:
    """Milliseconds, skewed; -1 where nothing was measured."""
    return lambda rng, count: np.where(
        rng.random(count) < share, np.minimum(rng.exponential(most / 8, count), most).astype(np.int64), -1
    )


_WIDTHS: Final = (1366, 1280, 1920, 1024, 1600, 1440, 1680, 768, 320, 360, 1152, 800, 0, 2560)

SMALL: Final[dict[str, Draw]] = {
    "javaenable": _flag(0.72),
    "goodevent": _flag(1.0),
    "counterclass": _flag(0.3),
    "os": _code(90),
    "useragent": _code(80),
    "isrefresh": _flag(0.12),
    "resolutionwidth": _one_of(*_WIDTHS),
    "resolutionheight": _one_of(768, 1024, 1080, 800, 900, 600, 1050, 480, 640, 0),
    "resolutiondepth": _one_of(32, 24, 16, 0),
    "flashmajor": _code(14),
    "flashminor": _code(10),
    "netmajor": _code(5),
    "netminor": _code(3),
    "useragentmajor": _code(80),
    "cookieenable": _flag(0.99),
    "javascriptenable": _flag(0.98),
    "ismobile": _flag(0.08),
    "mobilephone": _sparse(0.05, 60),
    "traficsourceid": lambda rng, count: zipf(rng, 10, count) - 1,
    "advengineid": _sparse(0.0063, 18),
    "isartifical": _flag(0.03),
    "windowclientwidth": _uniform(200, 2300),
    "windowclientheight": _uniform(100, 1300),
    "clienttimezone": _one_of(-240, -180, -120, -360, -300, 0, 60, -60),
    "silverlightversion1": _code(6),
    "silverlightversion2": _code(3),
    "silverlightversion4": _code(4),
    "islink": _flag(0.08),
    "isdownload": _flag(0.004),
    "isnotbounce": _flag(0.4),
    "isoldcounter": _flag(0.0),
    "isevent": _flag(0.02),
    "isparameter": _flag(0.01),
    "dontcounthits": _flag(0.06),
    "withhash": _flag(0.05),
    "age": _one_of(0, 26, 31, 22, 39, 50, 16),
    "sex": _code(3, 1.0),
    "income": _code(4, 1.0),
    "robotness": _sparse(0.01, 60),
    "historylength": _code(300),
    "httperror": _sparse(0.001, 5),
    "socialsourcenetworkid": _sparse(0.02, 15),
    "paramcurrencyid": _flag(0.001),
    "hasgclid": _flag(0.002),
}
"""Columns of type SMALLINT."""

MIDDLE: Final[dict[str, Draw]] = {
    "referercategoryid": _sparse(0.4, 600),
    "urlcategoryid": _sparse(0.7, 600),
    "interests": _sparse(0.5, 20_000),
    "windowname": _sparse(0.1, 5_000),
    "openername": _sparse(0.1, 5_000),
    "sendtiming": _timing(0.6, 30_000),
    "dnstiming": _timing(0.6, 3_000),
    "connecttiming": _timing(0.6, 5_000),
    "responsestarttiming": _timing(0.6, 20_000),
    "responseendtiming": _timing(0.6, 60_000),
    "fetchtiming": _timing(0.6, 60_000),
}
"""Columns of type INT."""

LARGE: Final[dict[str, Draw]] = {
    "regionid": lambda rng, count: zipf(rng, 9_040, count) + 1,
    "refererregionid": _sparse(0.8, 9_000),
    "urlregionid": _sparse(0.9, 9_000),
    "ipnetworkid": _code(500_000, 0.9),
    "silverlightversion3": _sparse(0.3, 300),
    "codeversion": _one_of(1601, 291, 500, 512, 260),
    "hid": _uniform(0, 1 << 30),
    "paramprice": _sparse(0.001, 10_000),
    "clid": _sparse(0.01, 5_000),
}
"""Columns of type BIGINT that no other column depends on."""

TEXTS: Final[dict[str, tuple[float, int]]] = {
    "flashminor2": (0.9, 80),
    "useragentminor": (1.0, 60),
    "params": (0.05, 3_000),
    "originalurl": (0.03, 20_000),
    "socialnetwork": (0.0005, 10),
    "socialaction": (0.0005, 3),
    "socialsourcepage": (0.02, 20_000),
    "paramorderid": (0.0008, 50_000),
    "openstatservicename": (0.01, 10),
    "openstatcampaignid": (0.01, 1_000),
    "openstatadid": (0.01, 5_000),
    "openstatsourceid": (0.01, 2_000),
    "utmsource": (0.03, 100),
    "utmmedium": (0.03, 20),
    "utmcampaign": (0.03, 500),
    "utmcontent": (0.02, 2_000),
    "utmterm": (0.01, 5_000),
    "fromtag": (0.01, 200),
}
"""Other columns of texts: the share of rows that are not empty, and the distinct values."""

CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "pagecharset": ("utf-8", "windows-1251", "", "koi8-r"),
    "hitcolor": ("S", "T", "5", "F", "E", "D"),
    "browserlanguage": ("ru", "en", "uk", "tr", "de"),
    "browsercountry": ("RU", "US", "UA", "TR", "DE", "KZ"),
    "paramcurrency": ("", "RUB", "USD", "EUR"),
}


def cardinalities(rows: int) -> dict[str, int]:
    """Distinct values from which the skewed columns are drawn, in the proportions of the real table."""
    return {
        "counterid": 6_506,
        "regionid": 9_040,
        "userid": max(20, rows * 176 // 1000),
        "clientip": max(20, rows * 99 // 1000),
        "url": max(20, rows * 183 // 1000),
        "referer": max(20, rows * 196 // 1000),
        "title": max(20, rows * 94 // 1000),
        "searchphrase": max(20, rows * 60 // 1000),
        "mobilephonemodel": 166,
        "watchid": rows,
    }


def _schema() -> pa.Schema:
    types = {"counterid": pa.int64(), "eventdate": pa.date32(), "userid": pa.int64(), "eventtime": pa.timestamp("us")}
    types |= {"watchid": pa.int64(), "clientip": pa.int64(), "remoteip": pa.int64(), "funiqid": pa.int64()}
    types |= {"urlhash": pa.int64(), "refererhash": pa.int64(), "searchengineid": pa.int16()}
    types |= {"title": pa.string(), "url": pa.string(), "referer": pa.string(), "searchphrase": pa.string()}
    types |= {"mobilephonemodel": pa.string(), "clienteventtime": pa.timestamp("us")}
    types |= {"localeventtime": pa.timestamp("us")}
    types |= dict.fromkeys(SMALL, pa.int16()) | dict.fromkeys(MIDDLE, pa.int32()) | dict.fromkeys(LARGE, pa.int64())
    types |= dict.fromkeys([*TEXTS, *CHOICES], pa.string())
    return pa.schema([pa.field(name, type_, nullable=False) for name, type_ in types.items()])


SCHEMA: Final = _schema()


def table(rows: int) -> TableSpec:
    """The specification of the table with `rows` rows."""
    return TableSpec("hits", SCHEMA, KEY, lambda: batches(rows))


def batches(rows: int) -> Iterator[pa.RecordBatch]:
    """The rows, in the order of time."""
    sizes = cardinalities(rows)
    for number, first, count in pieces(rows):
        rng = generator(SEED, number)
        columns: dict[str, pa.Array | np.ndarray] = {}
        for draws in (SMALL, MIDDLE, LARGE):
            columns |= {name: draw(rng, count) for name, draw in draws.items()}
        for name, (share, values) in TEXTS.items():
            columns[name] = _sometimes(rng, count, share, values, name)
        for name, choices in CHOICES.items():
            columns[name] = pa.array(choices).take(pa.array(zipf(rng, len(choices), count)))
        columns |= _keys(rng, first, count, rows, sizes)
        columns |= _pages(rng, count, sizes)
        yield record_batch(SCHEMA, columns)


def _keys(
    rng: np.random.Generator, first: int, count: int, rows: int, sizes: dict[str, int]
) -> dict[str, pa.Array | np.ndarray]:
    seconds = (np.arange(first, first + count) * (31 * _DAY)) // max(rows, 1) + rng.integers(0, 5, count)
    seconds = np.minimum(seconds, 31 * _DAY - 1)
    moments = (seconds + _FIRST_DAY * _DAY) * _MICROSECONDS
    counters = zipf(rng, sizes["counterid"], count)
    users = zipf(rng, sizes["userid"], count, 0.5)
    addresses = zipf(rng, sizes["clientip"], count, 0.5)
    return {
        "counterid": np.where(counters == 2, COUNTER, np.where(counters == COUNTER, 2, counters)),
        "eventdate": pa.array(_FIRST_DAY + seconds // _DAY, pa.int32()).cast(pa.date32()),
        "eventtime": pa.array(moments, pa.timestamp("us")),
        "clienteventtime": pa.array(moments + rng.integers(-7200, 7200, count) * _MICROSECONDS, pa.timestamp("us")),
        "localeventtime": pa.array(moments + rng.integers(-60, 60, count) * _MICROSECONDS, pa.timestamp("us")),
        "watchid": identifiers(np.arange(first, first + count), 1),
        "userid": np.where(users == 5, USER, identifiers(users, 2)),
        "funiqid": np.where(rng.random(count) < 0.7, identifiers(users, 3), 0),
        "clientip": identifiers(addresses, 4, 32),
        "remoteip": identifiers(addresses + rng.integers(0, 3, count), 5, 32),
    }


def _pages(rng: np.random.Generator, count: int, sizes: dict[str, int]) -> dict[str, pa.Array | np.ndarray]:
    urls = zipf(rng, sizes["url"], count)
    referers = np.where(rng.random(count) < 0.81, zipf(rng, sizes["referer"], count, 0.9), -1)
    titles = zipf(rng, sizes["title"], count)
    is_search = rng.random(count) < 0.132
    phrases = zipf(rng, sizes["searchphrase"], count, 0.9)
    phones = zipf(rng, 166, count)
    return {
        "url": by_rank(urls, lambda ranks: address_texts(ranks, 11)),
        "urlhash": np.where(urls == 0, URL_HASH, identifiers(urls, 12)),
        "referer": pc.if_else(pa.array(referers >= 0), by_rank(referers, lambda ranks: address_texts(ranks, 13)), ""),
        "refererhash": np.where(referers == 1, REFERER_HASH, identifiers(referers, 14)),
        "title": by_rank(titles, title_texts),
        "searchphrase": pc.if_else(pa.array(is_search), by_rank(phrases, phrase_texts), ""),
        "searchengineid": np.where(is_search, zipf(rng, 90, count) + 1, 0),
        "mobilephonemodel": pc.if_else(pa.array(rng.random(count) < 0.05), _labels("model", 166).take(phones), ""),
    }


@cache
def _hosts() -> pa.Array:
    names = joined(words(5_000, 21), ".", pa.array(["ru", "com", "net", "org", "ua"] * 1_000))
    google = joined(
        pa.array(["www.google", "maps.google", "google-analytics"] * 3), ".", pa.array(["ru", "com"] * 4 + ["ru"])
    )
    return pa.concat_arrays([names, google])


@cache
def _words(cyrillic: bool) -> pa.Array:
    return words(20_000, 22, cyrillic)


@cache
def _labels(prefix: str, count: int) -> pa.Array:
    return joined(f"{prefix}-", words(count, 23), "-", number_texts(np.arange(count)))


def address_texts(ranks: np.ndarray, salt: int) -> pa.Array:
    """The URL of each rank: distinct, 30 to 120 characters; one of 150 is at a host of Google."""
    mixed = identifiers(ranks, salt)
    host = np.where(mixed % 150 == 1, 5_000 + mixed % 9, np.minimum(mixed % 5_000, (mixed >> 13) % 5_000))
    scheme = pc.if_else(
        pa.array(mixed % 20 == 0), "https://", pc.if_else(pa.array(mixed % 3 == 0), "http://www.", "http://")
    )
    tail = pc.if_else(
        pa.array(mixed % 4 == 0), joined("&lr=", number_texts(mixed % 213), "&text=", _word(mixed >> 17)), ""
    )
    parts = (scheme, _hosts().take(pa.array(host)), "/", _word(mixed >> 5), "/", _word(mixed >> 9), "/?id=")
    return joined(*parts, number_texts(ranks + 1), tail)


def _word(numbers: np.ndarray) -> pa.Array:
    return _words(False).take(pa.array(numbers % 20_000))


def title_texts(ranks: np.ndarray) -> pa.Array:
    """The title of each rank, two of three in Cyrillic; some name Google."""
    is_latin = pa.array(ranks % 3 == 0)
    mixed = identifiers(ranks, 15)
    brand = pc.if_else(pa.array(mixed % 50 == 1), " - Google", "")
    latin, cyrillic = (phrase(ranks, _words(cyrillic), 30, 6) for cyrillic in (False, True))
    return joined(pc.if_else(is_latin, latin, cyrillic), " ", number_texts(ranks), brand)


def phrase_texts(ranks: np.ndarray) -> pa.Array:
    """The search phrase of each rank, three of four in Cyrillic."""
    latin, cyrillic = (phrase(ranks, _words(cyrillic), 40, 4) for cyrillic in (False, True))
    return joined(pc.if_else(pa.array(ranks % 4 == 0), latin, cyrillic), " ", number_texts(ranks % 1000))


def _sometimes(rng: np.random.Generator, count: int, share: float, values: int, name: str) -> pa.Array:
    there = pa.array(rng.random(count) < share)
    return pc.if_else(there, _labels(name, values).take(pa.array(zipf(rng, values, count))), "")
