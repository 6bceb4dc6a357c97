"""The tablet server: many replicas, scans and writes of clients, reports to the masters.

    server          start, drain and stop of a server     service      handlers of the methods
    directories     directories and disks                 slots        states of the server's tablets
    tablet_manager  opening, creating, failing            copies       remote bootstrap
    removal         tombstones and removal of files       heartbeats   reports to the masters
    maintenance     flushes, compactions, admission       completions  replies to decided writes
    quiescing       before a planned stop                  scans/       scans
    local_replicas  files of a server that does not run   known_masters  the masters, over restarts
    tablet_service  methods that serve tablets

The life of a server: `server.TabletServer` locks its `directories`, binds its port, and lists all its tablets (`slots`)
before it serves requests. `tablet_manager` opens them a few at a time; `heartbeats` reports to the masters.

The life of a write:

1. `tablet_service.TabletService.write` looks the replica up (`TabletManager.get`) and reserves memory
   (`maintenance.Maintenance.admit`).
2. `tablets.replica.Replica.write` does the rest: it returns when a majority has the rows.

The life of a scan:

1. `scans.scan_service.ScanService.scan` receives a ticket. A known scan is resumed (`scans.scanners.Scanners.stream`).
2. A new one takes a view of the tablet as of the ticket's timestamp, once the replica is complete up to there.
3. `scans.scan_sources.scan_sources` divides the view into sources, each followed by the ticket's fragment
   (`scans.fragments`).
4. `scans.scan_production.Production` reads them ahead of the stream, on threads that all scans share.
5. `scans.scanners.Scanner` numbers the batches that are sent, and keeps the last ones for a stream that may break.

The life of a replica: `TabletManager.create` or `copies.Copies` (remote bootstrap), and at last `removal.Removal`.
"""
