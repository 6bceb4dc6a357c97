"""Parts of a plan that run where the rows are: conditions, projections and partial aggregates at the tablets."""
