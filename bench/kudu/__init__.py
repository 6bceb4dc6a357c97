"""nyala's cluster beside real Kudu: `nyala bench kudu --kudu DIR`.

1. `distribution` finds the programs and the client of Kudu in the directory, unpacks them, and says what to download if
   something is missing.
2. `kudu_side` and `nyala_side` are the two stores behind one protocol, `model.Side`. Kudu's servers are started by
   `servers`; its client is Java, `KuduClient.java`, a process that executes a command a line. nyala's clients are
   Python threads in one or several processes (`nyala_clients`).
3. `measuring` runs all steps on each side in turn, with new and empty stores in every round.
4. `report` prints medians and ratios; `command` is the command.

Both sides have a master and the same number of tablet servers on loopback, the same replicas, tables, rows, number of
client threads and durability. Kudu syncs every write with `--log_force_fsync_all`; nyala does by default. Before a
write is acknowledged, a majority of the replicas has it in its log.
"""
