"""The version of nyala, equal to `project.version` of pyproject.toml."""

__version__ = "0.1.0"
