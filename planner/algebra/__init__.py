"""Plan nodes, logical and physical, their traversal, and provable properties of their rows."""
