"""Plans of prepared statements: values are put into the places of their parameters."""
