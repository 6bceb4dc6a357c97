"""The tablet server: many replicas, scans and writes for clients, reports for the master.

The life of a server: `server.TabletServer` locks its `directories`, takes its port, and knows of all its tablets
(`slots`) before it answers anybody; `tablet_manager` opens them a few at a time, `heartbeats` tells the masters.

The life of a write:

1. `service.Service.write` finds the replica (`TabletManager.get`) and asks `maintenance.Maintenance.admit` for memory.
2. `tablets.replica.Replica.write` does the rest: it returns when a majority has the rows.

The life of a scan:

1. `scans.scan_service.ScanService.scan` gets a ticket. A scan that it knows goes on (`scans.scanners.Scanners.stream`).
2. A new one takes a view of the tablet at the ticket's time, as soon as the replica has everything up to then.
3. `scans.scan_sources.scan_sources` cuts the view into sources, each with the ticket's fragment behind it
   (`scans.fragments`).
4. `scans.scan_production.Production` reads them ahead of the stream, on threads that all scans share.
5. `scans.scanners.Scanner` numbers the batches that go out, and keeps the last ones for a stream that may break.

How a replica comes and goes: `TabletManager.create`, `copies.Copies` (remote bootstrap), `removal.Removal`.
"""
