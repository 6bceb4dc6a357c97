"""Plans of prepared statements: values are bound to the places of their parameters."""
