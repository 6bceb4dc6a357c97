"""Looking after a cluster: start and stop, check, move, rebalance."""
