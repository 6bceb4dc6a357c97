"""One tablet's consensus without clock, disk or socket.

`node.RaftNode.step(event, now)` takes an event and returns a `Ready`, the work for the driver.

    node         RaftNode: dispatch of events by role
    core         state that all roles share, and the `Ready` under construction
    election     candidate and voter          following    follower
    leading      leader: rounds, responses, commit, changes of the configuration
    replication  messages with entries: batching and pipelining      progress  state of each follower
    lease        leader lease and clock limit                        transfer  leadership transfer
    membership   configurations by log index
    events       input and output of the node                        messages  messages between peers

The life of an entry: `events.Propose` appends it to the leader's log, `replication` sends it, and `following` appends
it at the followers. `events.Persisted` reports that a log is durable, and `messages.AppendResponse` acknowledges that
to the leader. `leading.Leading.count_entries` commits the entry once a majority has it durable.
"""
