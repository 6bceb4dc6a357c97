"""Loads SQLAlchemy's pytest plugin; given with -p, because a conftest.py would be found by our own tests too."""

import pytest
from sqlalchemy.dialects import registry

# The suite names dialect and driver.
registry.register("nyala", "nyala.driver.sqlalchemy", "NyalaDialect")
registry.register("nyala.nyala", "nyala.driver.sqlalchemy", "NyalaDialect")
pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403
