"""The last user of a store, and its last superuser with a password, stay unless a statement says FORCE."""

from __future__ import annotations

import nyala
import pytest
from nyala.errors import LastUser, StatementError

OPENING = [
    "DROP USER ann",
    "DROP ROLE IF EXISTS nobody, ann",
    "ALTER USER ann NOLOGIN",
    "BEGIN; DROP USER ann; CREATE USER ben PASSWORD 'b'; COMMIT",
]
WITHOUT_ADMINISTRATOR = [
    "ALTER USER adm NOSUPERUSER",
    "ALTER USER adm NOLOGIN",
    "ALTER USER adm PASSWORD NULL",
    "DROP USER adm",
    "DROP USER adm, boss_member; CREATE USER adm",
]


@pytest.mark.parametrize("text", OPENING)
def test_the_last_user_is_not_removed(text: str) -> None:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE USER ann PASSWORD 'a'; CREATE ROLE readers")
        with pytest.raises(LastUser, match=r"is open to all who reach it.*DROP USER \.\.\. FORCE") as caught:
            connection.execute(text)
        assert caught.value.sqlstate == "55006"
        connection.rollback()
        assert connection.store.access.role("ann").can_login
        connection.execute("CREATE USER ben; DROP USER ann")
        connection.execute("ALTER USER nyala PASSWORD 'n'; DROP USER ben")
        with pytest.raises(StatementError, match="the store's own"):
            connection.execute("DROP USER nyala FORCE")


@pytest.mark.parametrize("text", WITHOUT_ADMINISTRATOR)
def test_the_last_superuser_is_not_removed(text: str) -> None:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE USER adm SUPERUSER PASSWORD 'a'; CREATE USER ann PASSWORD 'a'")
        connection.execute(
            "CREATE USER boss_member"
        )  # a superuser without a password cannot log in, and does not count
        connection.execute("CREATE ROLE boss SUPERUSER; GRANT boss TO boss_member")
        with pytest.raises(LastUser, match="user adm is the last superuser with a password"):
            connection.execute(text)
        connection.execute("GRANT boss TO ann")
        connection.execute("ALTER USER adm NOSUPERUSER")
        with pytest.raises(LastUser, match="user ann is the last superuser with a password"):
            connection.execute("REVOKE boss FROM ann")
        with pytest.raises(LastUser):
            connection.execute("ALTER ROLE boss NOSUPERUSER")


def test_force_opens_the_store() -> None:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE USER adm SUPERUSER PASSWORD 'a'; CREATE USER ann")
        connection.execute("DROP USER adm FORCE")
        assert [name for name, role in connection.store.access.roles.items() if role.can_login] == ["ann"]
        connection.execute("DROP USER ann FORCE")
        assert not connection.store.access.has_users
        connection.execute("CREATE USER force; DROP USER force FORCE")
