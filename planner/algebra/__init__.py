"""Plan nodes, logical and physical, their traversal, and provable properties of their rows.

`logical` nodes are what rules rewrite, `physical` ones what the executor opens. Both are immutable, so rules rebuild
(`trees`) and prove what they need (`properties`); in tests `invariants` checks the plan after every rule.
"""
