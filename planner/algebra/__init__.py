"""Plan nodes, logical and physical, how they are traversed, and what can be proved of their rows."""
