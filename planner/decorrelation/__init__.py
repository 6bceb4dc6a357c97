"""The machinery that turns correlated subqueries into joins."""
