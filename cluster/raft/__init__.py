"""One tablet's consensus without clock, disk or socket: `RaftNode.step(event, now)` gives a `Ready`."""
