"""Administration of a cluster.

local_cluster, processes, ports   a cluster of processes on this machine
minicluster                       the same for tests, with faults
view, names                       a view of the whole cluster; names of servers and tablets
ksck                              checks                     masters      calls to the leading master
moves, unsafe                     moving replicas, forcing a configuration
one_server                        common parts of leaving and planned_absence
master_changes                    adding and removing masters
rebalance, rebalancing            plan and execution of a rebalance
certificates, authority           certificates for TLS
"""
