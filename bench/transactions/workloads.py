"""Ten updates in a transaction, and transfers between accounts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from .model import Client

ROWS: Final = 10_000
_BALANCE: Final = 1_000


class Tens:
    """Ten single-row updates by key; the same transaction adds what it takes away, so the sum stays 0."""

    name: ClassVar[str] = "tens"
    title: ClassVar[str] = "Ten updates by key"

    def tables(self) -> Sequence[str]:
        return ["CREATE TABLE counters (k INT PRIMARY KEY, n BIGINT NOT NULL, v VARCHAR(40) NOT NULL)"]

    def load(self, client: Client) -> None:
        client.insert("counters", [(k, 0, f"counter {k}") for k in range(ROWS)])

    def transaction(self, chosen: random.Random) -> Callable[[Client], None]:
        keys = sorted(chosen.sample(range(ROWS), 10))

        def work(client: Client) -> None:
            for number, key in enumerate(keys):
                client.execute("UPDATE counters SET n = n + ? WHERE k = ?", (1 if number % 2 else -1, key))

        return work

    def check(self, client: Client) -> list[str]:
        found = client.execute("SELECT CAST(sum(n) AS BIGINT), count(*) FROM counters")
        return [] if found == [(0, ROWS)] else [f"the sum and the number of counters are {found}, not (0, {ROWS})"]


class Bank:
    """Transfers: two balances are read, checked and written, and the transfer is recorded."""

    name: ClassVar[str] = "bank"
    title: ClassVar[str] = "Transfers between two accounts"

    def tables(self) -> Sequence[str]:
        return [
            "CREATE TABLE accounts (k INT PRIMARY KEY, balance BIGINT NOT NULL)",
            "CREATE TABLE transfers (source INT, target INT, id BIGINT, amount BIGINT NOT NULL, "
            "PRIMARY KEY (source, target, id))",
        ]

    def load(self, client: Client) -> None:
        client.insert("accounts", [(k, _BALANCE) for k in range(ROWS)])

    def transaction(self, chosen: random.Random) -> Callable[[Client], None]:
        source, target = sorted(chosen.sample(range(ROWS), 2))
        amount, number = chosen.randrange(-50, 51), chosen.getrandbits(62)

        def work(client: Client) -> None:
            balances = [
                client.execute("SELECT balance FROM accounts WHERE k = ?", (key,))[0][0] for key in (source, target)
            ]
            if min(balances[0] - amount, balances[1] + amount) < 0:
                return
            client.execute("UPDATE accounts SET balance = ? WHERE k = ?", (balances[0] - amount, source))
            client.execute("UPDATE accounts SET balance = ? WHERE k = ?", (balances[1] + amount, target))
            client.execute("INSERT INTO transfers VALUES (?, ?, ?, ?)", (source, target, number, amount))

        return work

    def check(self, client: Client) -> list[str]:
        faults = []
        found = client.execute("SELECT CAST(sum(balance) AS BIGINT), min(balance) FROM accounts")[0]
        if found[0] != ROWS * _BALANCE or found[1] < 0:
            faults.append(f"the sum and the least of the balances are {found}, not ({ROWS * _BALANCE}, at least 0)")
        wrong = client.execute(
            "SELECT count(*) FROM (SELECT a.k, a.balance - ? AS moved, coalesce(t.moved, 0) AS recorded FROM "
            "accounts a LEFT JOIN (SELECT k, CAST(sum(amount) AS BIGINT) AS moved FROM (SELECT source AS k, "
            "-amount AS amount FROM transfers UNION ALL SELECT target, amount FROM transfers) u GROUP BY k) t "
            "ON t.k = a.k) b WHERE moved <> recorded",
            (_BALANCE,),
        )
        if wrong != [(0,)]:
            faults.append(f"{wrong[0][0]} balances are not what the recorded transfers make of them")
        return faults
