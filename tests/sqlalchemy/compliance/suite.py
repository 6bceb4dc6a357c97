"""SQLAlchemy's own tests of a dialect, as they are."""

from sqlalchemy.testing.suite import *  # noqa: F403
