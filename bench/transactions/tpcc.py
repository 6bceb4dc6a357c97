"""New-Order and Payment of TPC-C (revision 5.11, clauses 2.4 and 2.5): its tables, keys and mix of these two, scaled
down. Amounts are integers, in cents. Customers are chosen by their key; the specification chooses 60 % by last name.

| | specification | here |
|---|---|---|
| items | 100,000 | 1,000 |
| stock of a warehouse | 100,000 | 1,000 |
| customers of a district | 3,000 | 300 |
| districts of a warehouse | 10 | 10 |
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from .model import Client, Rollback

WAREHOUSES: Final = 2
DISTRICTS: Final = 10
CUSTOMERS: Final = 300
ITEMS: Final = 1_000
_PAYMENTS: Final = 43 / (43 + 45)
"""The share of Payment in the mix of both."""
_YTD: Final = 30_000_00


class TpcC:
    """New-Order and Payment."""

    name: ClassVar[str] = "tpcc"
    title: ClassVar[str] = "TPC-C: New-Order and Payment"

    def tables(self) -> Sequence[str]:
        return [
            "CREATE TABLE warehouse (w_id INT PRIMARY KEY, w_name VARCHAR(10), w_tax INT, w_ytd BIGINT)",
            "CREATE TABLE district (d_w_id INT, d_id INT, d_name VARCHAR(10), d_tax INT, d_ytd BIGINT, "
            "d_next_o_id INT, PRIMARY KEY (d_w_id, d_id))",
            "CREATE TABLE customer (c_w_id INT, c_d_id INT, c_id INT, c_last VARCHAR(16), c_credit VARCHAR(2), "
            "c_discount INT, c_balance BIGINT, c_ytd_payment BIGINT, c_payment_cnt INT, c_data VARCHAR(500), "
            "PRIMARY KEY (c_w_id, c_d_id, c_id))",
            "CREATE TABLE history (h_c_w_id INT, h_c_d_id INT, h_c_id INT, h_number BIGINT, h_d_id INT, h_w_id INT, "
            "h_amount BIGINT, h_data VARCHAR(24), PRIMARY KEY (h_c_w_id, h_c_d_id, h_c_id, h_number))",
            "CREATE TABLE item (i_id INT PRIMARY KEY, i_name VARCHAR(24), i_price BIGINT, i_data VARCHAR(50))",
            "CREATE TABLE stock (s_w_id INT, s_i_id INT, s_quantity INT, s_dist VARCHAR(24), s_ytd BIGINT, "
            "s_order_cnt INT, s_remote_cnt INT, PRIMARY KEY (s_w_id, s_i_id))",
            "CREATE TABLE orders (o_w_id INT, o_d_id INT, o_id INT, o_c_id INT, o_ol_cnt INT, o_all_local INT, "
            "PRIMARY KEY (o_w_id, o_d_id, o_id))",
            "CREATE TABLE new_order (no_w_id INT, no_d_id INT, no_o_id INT, PRIMARY KEY (no_w_id, no_d_id, no_o_id))",
            "CREATE TABLE order_line (ol_w_id INT, ol_d_id INT, ol_o_id INT, ol_number INT, ol_i_id INT, "
            "ol_supply_w_id INT, ol_quantity INT, ol_amount BIGINT, ol_dist_info VARCHAR(24), "
            "PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))",
        ]

    def load(self, client: Client) -> None:
        chosen = random.Random(1)
        warehouses, districts, items = range(1, WAREHOUSES + 1), range(1, DISTRICTS + 1), range(1, ITEMS + 1)
        client.insert("item", [(i, f"item {i}", chosen.randrange(100, 10_000), "data") for i in items])
        client.insert("warehouse", [(w, f"w{w}", chosen.randrange(2_000), _YTD * DISTRICTS) for w in warehouses])
        client.insert("stock", [(w, i, chosen.randrange(10, 101), "dist", 0, 0, 0) for w in warehouses for i in items])
        client.insert(
            "district", [(w, d, f"d{d}", chosen.randrange(2_000), _YTD, 1) for w in warehouses for d in districts]
        )
        client.insert(
            "customer",
            [
                (w, d, c, f"name {c}", "GC", chosen.randrange(5_000), -1_000, 1_000, 1, "data" * 20)
                for w in warehouses
                for d in districts
                for c in range(1, CUSTOMERS + 1)
            ],
        )

    def transaction(self, chosen: random.Random) -> Callable[[Client], None]:
        return self._payment(chosen) if chosen.random() < _PAYMENTS else self._new_order(chosen)

    def _payment(self, chosen: random.Random) -> Callable[[Client], None]:
        warehouse, district = chosen.randint(1, WAREHOUSES), chosen.randint(1, DISTRICTS)
        is_local = chosen.random() < 0.85
        customer = (
            warehouse if is_local else chosen.randint(1, WAREHOUSES),
            district if is_local else chosen.randint(1, DISTRICTS),
            chosen.randint(1, CUSTOMERS),
        )
        amount, number = chosen.randint(100, 500_000), chosen.getrandbits(62)

        def work(client: Client) -> None:
            client.execute("UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?", (amount, warehouse))
            client.execute(
                "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?", (amount, warehouse, district)
            )
            client.execute("SELECT w_name FROM warehouse WHERE w_id = ?", (warehouse,))
            client.execute("SELECT d_name FROM district WHERE d_w_id = ? AND d_id = ?", (warehouse, district))
            client.execute(
                "SELECT c_last, c_credit, c_balance FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
                customer,
            )
            client.execute(
                "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, c_payment_cnt = "
                "c_payment_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
                (amount, amount, *customer),
            )
            client.execute(
                "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*customer, number, district, warehouse, amount, "payment"),
            )

        return work

    def _new_order(self, chosen: random.Random) -> Callable[[Client], None]:
        warehouse, district = chosen.randint(1, WAREHOUSES), chosen.randint(1, DISTRICTS)
        customer = chosen.randint(1, CUSTOMERS)
        is_wrong = chosen.random() < 0.01
        items = chosen.sample(range(1, ITEMS + 1), chosen.randint(5, 15))
        lines = [
            (item, warehouse if chosen.random() < 0.99 else chosen.randint(1, WAREHOUSES), chosen.randint(1, 10))
            for item in sorted(items)
        ]

        def work(client: Client) -> None:
            client.execute("SELECT w_tax FROM warehouse WHERE w_id = ?", (warehouse,))
            client.execute(
                "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
                (warehouse, district, customer),
            )
            found = client.execute(
                "SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = ? AND d_id = ?", (warehouse, district)
            )
            number = found[0][0]
            client.execute(
                "UPDATE district SET d_next_o_id = ? WHERE d_w_id = ? AND d_id = ?", (number + 1, warehouse, district)
            )
            is_local = int(all(supplier == warehouse for _, supplier, _ in lines))
            client.execute(
                "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)",
                (warehouse, district, number, customer, len(lines), is_local),
            )
            client.execute("INSERT INTO new_order VALUES (?, ?, ?)", (warehouse, district, number))
            for line, (item, supplier, quantity) in enumerate(lines, 1):
                if is_wrong and line == len(lines):
                    raise Rollback  # the last item does not exist (clause 2.4.1.4)
                price = client.execute("SELECT i_price, i_name, i_data FROM item WHERE i_id = ?", (item,))[0][0]
                stock = client.execute(
                    "SELECT s_quantity, s_dist FROM stock WHERE s_w_id = ? AND s_i_id = ?", (supplier, item)
                )[0]
                left = stock[0] - quantity if stock[0] >= quantity + 10 else stock[0] - quantity + 91
                client.execute(
                    "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1, s_remote_cnt = "
                    "s_remote_cnt + ? WHERE s_w_id = ? AND s_i_id = ?",
                    (left, quantity, int(supplier != warehouse), supplier, item),
                )
                client.execute(
                    "INSERT INTO order_line VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (warehouse, district, number, line, item, supplier, quantity, price * quantity, stock[1]),
                )

        return work

    def check(self, client: Client) -> list[str]:
        """Consistency conditions 1 to 4 (clause 3.3.2), as far as these two transactions concern them."""
        conditions = {
            "W_YTD is not the sum of D_YTD": "SELECT count(*) FROM warehouse JOIN (SELECT d_w_id, sum(d_ytd) AS ytd "
            "FROM district GROUP BY d_w_id) d ON d_w_id = w_id WHERE w_ytd <> ytd",
            "D_NEXT_O_ID is not above the greatest O_ID by 1": "SELECT count(*) FROM district JOIN (SELECT o_w_id, "
            "o_d_id, max(o_id) AS top FROM orders GROUP BY o_w_id, o_d_id) o ON o_w_id = d_w_id AND o_d_id = d_id "
            "WHERE d_next_o_id <> top + 1",
            "orders are not as many as the new ones": "SELECT count(*) FROM (SELECT count(*) AS n FROM orders) a, "
            "(SELECT count(*) AS n FROM new_order) b WHERE a.n <> b.n",
            "O_OL_CNT is not the number of lines": "SELECT count(*) FROM orders LEFT JOIN (SELECT ol_w_id, ol_d_id, "
            "ol_o_id, count(*) AS n FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id) l ON ol_w_id = o_w_id AND "
            "ol_d_id = o_d_id AND ol_o_id = o_id WHERE coalesce(n, 0) <> o_ol_cnt",
        }
        return [f"{what}: {found}" for what, text in conditions.items() if (found := client.execute(text)[0][0])]
