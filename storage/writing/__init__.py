"""The way of a write, from an Arrow batch or a Python row to the log and the rowsets."""
