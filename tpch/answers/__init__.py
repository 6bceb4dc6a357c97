"""The official answers at scale factor 1, as README.md beside them says; `tpch.queries` reads them."""
