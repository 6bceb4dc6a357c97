"""Any statement raises only nyala's own errors, and never an `InternalError`.

The statements are those of the golden scripts, the documentation and the query generator, with parts deleted,
exchanged and inserted. NYALA_STATEMENTS=20000 runs more of them, NYALA_SEED=7 others.
"""

from __future__ import annotations

import os
import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import nyala
import pytest
from differential.query_generator import QueryGenerator
from differential.test_differential import TABLES, fill

STATEMENTS = int(os.environ.get("NYALA_STATEMENTS", "1500"))
SEED = int(os.environ.get("NYALA_SEED", "1"))
PER_TEST = 100
ROOT = Path(nyala.__file__).parent
GOLDEN = Path(__file__).parents[2] / "sql" / "golden"
TOKEN = re.compile(r"\s+|'(?:[^']|'')*'|\"[^\"]*\"|\w+|<=|>=|<>|::|\|\||.", re.DOTALL)
COMMAND = re.compile(r"(?P<command>(?:^(?!---$|#).+\n)+)^---\n", re.MULTILINE)
FENCE = re.compile(r"^```sql\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS = 5.0
"""A statement that takes longer is cancelled: a mutation may make a recursion endless."""


def _corpus() -> list[str]:
    texts = [m["command"] for path in GOLDEN.glob("*.txt") for m in COMMAND.finditer(path.read_text(encoding="utf-8"))]
    blocks = FENCE.findall((ROOT / "docs" / "sql.md").read_text(encoding="utf-8"))
    texts += [statement for block in blocks for statement in block.split(";") if statement.strip()]
    texts += [QueryGenerator(seed, TABLES).query() for seed in range(100)]
    # Names of tables that exist make more statements get past the binder.
    return [re.sub(r"\b(metrics|hosts|requests|t|lineitem|orders)\b", "r", text) for text in texts]


CORPUS = _corpus()
WORDS = sorted({token for text in CORPUS for token in TOKEN.findall(text) if token.strip()})


def _mutated(text: str, rng: random.Random) -> str:
    tokens = TOKEN.findall(text)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        place = rng.randrange(len(tokens)) if tokens else 0
        word = f" {rng.choice(WORDS)} "
        match rng.randrange(4):
            case 0:
                del tokens[place : place + rng.randint(1, 3)]
            case 1 if tokens:
                tokens[place] = word
            case 2:
                tokens.insert(place, word)
            case 3 if tokens:
                other = rng.randrange(len(tokens))
                tokens[place], tokens[other] = tokens[other], tokens[place]
    return "".join(tokens)


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[nyala.Connection]:
    monkeypatch.chdir(tmp_path)
    with nyala.connect(":memory:", threads=1, memory_limit=200_000_000) as found:
        fill(found.execute)
        yield found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::nyala.errors.NotRolledBackWarning")
@pytest.mark.parametrize("start", range(0, STATEMENTS, PER_TEST))
def test_only_errors_of_its_own(connection: nyala.Connection, start: int) -> None:
    rng = random.Random(f"{SEED} {start}")
    for _ in range(PER_TEST):
        text = _mutated(rng.choice(CORPUS), rng)
        timer = threading.Timer(SECONDS, connection.cancel)
        timer.start()
        try:
            connection.execute(text).fetchmany(1000)
        except nyala.errors.InternalError as error:
            raise pytest.fail.Exception(f"{text}\n  {error!r}", pytrace=False) from None
        except nyala.Error as error:
            assert str(error).strip(), text
        except Exception as error:
            raise pytest.fail.Exception(f"{text}\n  {error!r}", pytrace=False) from None
        finally:
            timer.cancel()
