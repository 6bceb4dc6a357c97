"""Plans as text and as JSON, and expressions as SQL."""
