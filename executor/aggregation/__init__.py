"""GROUP BY: states of aggregate functions, and how rows become groups of them."""
