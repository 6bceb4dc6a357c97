"""nyala for Alembic: `plugin` is what Alembic loads, `migrations` how tables are altered and compared.

Apart from the SQLAlchemy dialect, whose import loads the engine: Alembic loads the plugin in every project of an
environment that has nyala in it.
"""
