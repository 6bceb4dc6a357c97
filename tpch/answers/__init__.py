"""The official answers at scale factor 1, described in README.md in this folder; `tpch.queries` reads them."""
