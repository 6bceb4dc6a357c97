"""The tpch room."""
