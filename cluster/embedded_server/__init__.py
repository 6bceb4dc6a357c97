"""The owner of a store answers the cluster's protocol for it, so that other processes reach the store, too.

To a client it is a cluster of one master and one tablet server, whose tablets have one replica:
`cluster.embedded_server.server` has the life of it, `cluster.embedded_server.catalog` what a master does,
`cluster.embedded_server.service` and `cluster.embedded_server.tablets` what a tablet server does,
`cluster.embedded_server.joint_writes` and `cluster.embedded_server.loads` what a store does as a whole,
`cluster.embedded_server.call_results` that each call is done once. `cluster.embedded_server.owner_record` is how others
find it, `cluster.embedded_server.process` the owner that does nothing else.
"""
