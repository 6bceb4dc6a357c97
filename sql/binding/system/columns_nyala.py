"""The columns of the relations of `nyala_catalog`: what a store and its process measure and do (`model.observations`).

Each relation is written as those of `information_schema` are (`columns_information`).
"""

COLUMNS = """
metrics 13600 name:text labels:text value:float8 kind:text help:text
statements 13601 id:int8 state:text user_name:text client:text started:timestamptz seconds:float8 rows:int8
  memory_bytes:int8 plan_digest:text sqlstate:text error:text statement:text
tablets 13602 table_name:text tablet_id:text partition:text rows:int8 disk_bytes:int8 host:text directory:text role:text
  is_damaged:bool
rowsets 13603 table_name:text tablet_id:text rowset_id:int8 rows:int8 disk_bytes:int8 min_key:text max_key:text
  key_start:float8 key_stop:float8
operations 13604 state:text kind:text table_name:text tablet_id:text target:text reason:text score:float8
  started:timestamptz seconds:float8 memory_bytes:int8 log_bytes:int8 disk_bytes:int8 error:text
statement_operators 13606 statement_id:int8 user_name:text step:int8 depth:int8 operator:text details:text rows:int8
  expected_rows:int8 seconds:float8 memory_bytes:int8 spilled_bytes:int8
masters 13607 address:text id:text role:text state:text term:int8 last_index:int8 lag_entries:int8 version:text
  error:text
partitions 13608 table_schema:text table_name:text sql_name:text key_column:text number:int4 partition:text
  condition:text snapshot:int8
operation_kinds 13605 kind:text queued:int8 running:int8 done:int8 failed:int8 seconds:float8 written_bytes:int8
  best_score:float8 memory_bytes:int8 log_bytes:int8 disk_bytes:int8
"""
OF_STATEMENTS = frozenset(("statements", "statement_operators"))
"""Relations with texts of users' statements, which are theirs and those of superusers."""
