"""The owner of a store answers the cluster's protocol for it, so that other processes reach the store, too.

To a client it is a cluster of one master and one tablet server, whose tablets have one replica: `server` has the life
of it, `catalog` what a master does, `service` and `tablets` what a tablet server does, `joint_writes` and `loads` what
a store does as a whole, `calls` that each call is done once. `record` is how others find it, `process` the owner that
does nothing else.
"""
