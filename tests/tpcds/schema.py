"""The 24 tables of TPC-DS for nyala: keys, distribution, and a loader.

The generator's Parquet files know the columns and their types; what they cannot say stands here. Keys are those of the
specification (revision 3, section 2). A sale and its return are found by the same item and order, so both tables are
distributed by the item: the join of the two stays within a bucket, and so does a join with `item` or `inventory`.

    store_sales    (ss_item_sk, ss_ticket_number)    HASH (ss_item_sk) INTO 2 BUCKETS
    store_returns  (sr_item_sk, sr_ticket_number)    HASH (sr_item_sk) INTO 2 BUCKETS
    item           (i_item_sk)                       HASH (i_item_sk)  INTO 2 BUCKETS
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from nyala.driver.connection import Connection

SCALE_FACTOR: Final = 0.01
"""The smallest at which most queries find something: 120,000 store sales, 1,000 customers, 2,000 items."""

BUCKETS: Final = 2


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table: the key columns in their order; `hashed` names the column that distributes the rows, if any."""

    name: str
    key: tuple[str, ...]
    hashed: str | None = None

    def create_table(self, columns: pa.Schema) -> str:
        """The CREATE TABLE statement for the columns of a Parquet file, those of the key first; others may be NULL."""
        lines = [f"{name} {_sql_type(columns.field(name).type)} NOT NULL" for name in self.key]
        lines += [f"{field.name} {_sql_type(field.type)}" for field in columns if field.name not in self.key]
        lines.append(f"PRIMARY KEY ({', '.join(self.key)})")
        statement = f"CREATE TABLE {self.name} (\n  " + ",\n  ".join(lines) + "\n)"
        if self.hashed is not None:
            statement += f"\nDISTRIBUTE BY HASH ({self.hashed}) INTO {BUCKETS} BUCKETS"
        return statement


def _sql_type(type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    return {pa.int32(): "INT", pa.int64(): "BIGINT", pa.date32(): "DATE"}.get(type_, "VARCHAR")


TABLES: Final = (
    TableSpec("call_center", ("cc_call_center_sk",)),
    TableSpec("catalog_page", ("cp_catalog_page_sk",)),
    TableSpec("catalog_returns", ("cr_item_sk", "cr_order_number"), "cr_item_sk"),
    TableSpec("catalog_sales", ("cs_item_sk", "cs_order_number"), "cs_item_sk"),
    TableSpec("customer", ("c_customer_sk",), "c_customer_sk"),
    TableSpec("customer_address", ("ca_address_sk",), "ca_address_sk"),
    TableSpec("customer_demographics", ("cd_demo_sk",), "cd_demo_sk"),
    TableSpec("date_dim", ("d_date_sk",)),
    TableSpec("household_demographics", ("hd_demo_sk",)),
    TableSpec("income_band", ("ib_income_band_sk",)),
    TableSpec("inventory", ("inv_date_sk", "inv_item_sk", "inv_warehouse_sk"), "inv_item_sk"),
    TableSpec("item", ("i_item_sk",), "i_item_sk"),
    TableSpec("promotion", ("p_promo_sk",)),
    TableSpec("reason", ("r_reason_sk",)),
    TableSpec("ship_mode", ("sm_ship_mode_sk",)),
    TableSpec("store", ("s_store_sk",)),
    TableSpec("store_returns", ("sr_item_sk", "sr_ticket_number"), "sr_item_sk"),
    TableSpec("store_sales", ("ss_item_sk", "ss_ticket_number"), "ss_item_sk"),
    TableSpec("time_dim", ("t_time_sk",)),
    TableSpec("warehouse", ("w_warehouse_sk",)),
    TableSpec("web_page", ("wp_web_page_sk",)),
    TableSpec("web_returns", ("wr_item_sk", "wr_order_number"), "wr_item_sk"),
    TableSpec("web_sales", ("ws_item_sk", "ws_order_number"), "ws_item_sk"),
    TableSpec("web_site", ("web_site_sk",)),
)


def generate(directory: Path) -> Path:
    """Have `tpcgen-cli` write one Parquet file per table into a directory; the directory."""
    program = Path(sys.executable).parent / "tpcgen-cli"
    command = [str(program), "tpcds", "parquet", "-s", str(SCALE_FACTOR), f"--output-dir={directory}", "--quiet"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return directory


def load(connection: Connection, directory: Path) -> dict[str, int]:
    """Create all tables and load their files; rows per table."""
    counts = {}
    for spec in TABLES:
        path = directory / f"{spec.name}.parquet"
        connection.execute(spec.create_table(pq.read_schema(path)))
        counts[spec.name] = connection.load(spec.name, path)
    return counts
