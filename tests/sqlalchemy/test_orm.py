"""The ORM's unit of work: objects in, changed and out, with relationships that no foreign key holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from nyala.driver.cursor import Cursor
from nyala.driver.sqlalchemy import as_of, upsert
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, aliased, foreign, mapped_column, relationship, selectinload
from sqlalchemy.orm.exc import StaleDataError


class Base(DeclarativeBase):
    pass


class User(Base):
    __tablename__ = "users"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(20))
    age: Mapped[int | None] = mapped_column(default=18)
    mails: Mapped[list[Mail]] = relationship(
        primaryjoin=lambda: User.id == foreign(Mail.user_id), back_populates="user", cascade="all, delete-orphan"
    )


class Mail(Base):
    __tablename__ = "mails"
    user_id: Mapped[int] = mapped_column(primary_key=True)
    address: Mapped[str] = mapped_column(primary_key=True)
    text: Mapped[str | None]
    user: Mapped[User] = relationship(primaryjoin=lambda: User.id == foreign(Mail.user_id), back_populates="mails")


@pytest.fixture
def session(engine: sa.Engine) -> Iterator[Session]:
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        yield session
        session.commit()


def people(session: Session) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in session.execute(sa.select(User.id, User.name, User.age).order_by(User.id))]


def test_objects_live(session: Session) -> None:
    ann = User(name="ann", mails=[Mail(address="a"), Mail(address="b")])
    session.add_all([ann, User(name="bob", age=30), User(name="cy", age=sa.null())])
    session.commit()
    assert people(session) == [(1, "ann", 18), (2, "bob", 30), (3, "cy", None)]
    ann.name = "anna"
    ann.mails[0].text = "hello"
    del ann.mails[1]
    session.delete(session.scalars(sa.select(User).filter_by(name="bob")).one())
    session.commit()
    assert people(session) == [(1, "anna", 18), (3, "cy", None)]
    session.expunge_all()
    loaded = session.scalars(sa.select(User).options(selectinload(User.mails)).where(User.name == "anna")).one()
    assert [(mail.address, mail.text, mail.user is loaded) for mail in loaded.mails] == [("a", "hello", True)]
    session.delete(loaded)
    session.commit()
    assert session.scalar(sa.select(sa.func.count()).select_from(Mail)) == 0


def test_a_row_that_is_gone_is_noticed(session: Session) -> None:
    session.add(User(name="ann"))
    session.commit()
    found = session.get_one(User, 1)
    session.connection().exec_driver_sql("DELETE FROM users")
    found.name = "anna"
    with pytest.raises(StaleDataError):
        session.flush()
    session.rollback()
    assert people(session) == [(1, "ann", 18)]  # the DELETE was part of the transaction


def test_many_rows_go_the_short_way(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    executemany = Cursor.executemany

    def counted(self: Cursor, operation: str, rows: Any) -> Cursor:
        calls.append(len(rows))
        return executemany(self, operation, rows)

    monkeypatch.setattr(Cursor, "executemany", counted)
    session.execute(sa.insert(User), [{"name": f"n{number}"} for number in range(5_000)])
    assert calls == [5_000]
    assert session.scalar(sa.select(sa.func.max(User.id))) == 5_000
    session.execute(sa.update(User), [{"id": 1, "age": 1}, {"id": 2, "age": 2}])
    assert session.scalar(sa.select(sa.func.count()).where(User.age < 3)) == 2


def test_rows_come_back_in_the_order_of_the_objects(session: Session) -> None:
    names = [f"n{number}" for number in range(300)]
    objects = session.scalars(
        sa.insert(User).returning(User, sort_by_parameter_order=True), [{"name": n} for n in names]
    ).all()
    assert [user.name for user in objects] == names
    assert [user.id for user in objects] == list(range(1, 301))
    changed = session.scalars(sa.update(User).where(User.id < 3).values(age=User.age + 1).returning(User.age)).all()
    assert changed == [19, 19]


def test_constructs_of_nyala_take_classes(session: Session) -> None:
    session.add(User(name="ann"))
    session.commit()
    then = session.scalar(sa.select(sa.func.now()))
    session.commit()
    session.execute(upsert(User).values(id=1, name="anna", age=20))
    session.execute(upsert(User), [{"id": 2, "name": "bob", "age": 2}])
    assert people(session) == [(1, "anna", 20), (2, "bob", 2)]
    old = aliased(User, as_of(User, then))
    assert session.scalars(sa.select(old.name)).all() == ["ann"]
