"""The texts of the 22 queries, with the validation parameters of the specification; `tpch.queries` reads them."""
