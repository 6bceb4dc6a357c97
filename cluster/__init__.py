"""The replicated cluster: tablets by Raft across tablet servers, a master that knows them, a client that is a
`Store`."""
