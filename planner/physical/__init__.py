"""Physical planning: the operator of each node, join order, build sides."""
