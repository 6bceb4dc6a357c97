"""The planner room."""
