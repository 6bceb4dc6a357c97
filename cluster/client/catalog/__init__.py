"""Cached metadata of the cluster: tables, locations, statistics.

A table's entry in `catalog_cache` and the replicas of its tablets in `locations` are read from the leading master
(`masters`) at first use. They stay until a server reports that they are out of date: another leader, another schema, a
tablet that was dropped. `statistics` merges those of the tablets, and `statistics_cache` keeps the result for the
planner. `master_states` lists the masters for those who operate them.
"""
