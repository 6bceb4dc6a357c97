"""Parts of a plan that tablet servers execute: conditions, projections and partial aggregates."""
