"""Django's ORM on the PostgreSQL protocol: tables made by `migrate`, and what its queries return."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import nyala
import pytest

django = pytest.importorskip("django")
pytest.importorskip("psycopg")
pytestmark = pytest.mark.slow

START = datetime.datetime(2026, 1, 1, 12)


@pytest.fixture(scope="module")
def shop() -> Iterator[Any]:
    """The models, their module of Django's database, and a connection to the store itself."""
    from django.conf import settings

    with nyala.connect(":memory:") as store:
        host, port = store.serve(postgres="127.0.0.1:0").removeprefix("postgresql://").rstrip("/").split(":")
        door = {"ENGINE": "django.db.backends.postgresql", "NAME": "nyala", "USER": "nyala", "HOST": host, "PORT": port}
        settings.configure(DATABASES={"default": door}, INSTALLED_APPS=["django_shop"], USE_TZ=False, TIME_ZONE="UTC")
        django.setup()
        from django.core.management import call_command
        from django.db import connection
        from django_shop.models import Host, Reading

        try:
            call_command("migrate", run_syncdb=True, verbosity=0)
            yield SimpleNamespace(Host=Host, Reading=Reading, connection=connection, store=store)
        finally:
            connection.close()


@pytest.fixture(autouse=True)
def rows(shop: Any) -> None:
    """Two hosts, and 100 readings of them."""
    shop.Reading.objects.all().delete()
    shop.Host.objects.all().delete()
    shop.Host.objects.bulk_create([shop.Host(id=1, name="alpha"), shop.Host(id=2, name="beta")])
    shop.Reading.objects.bulk_create(
        shop.Reading(id=n, host_id=1 + n % 2, value=n / 2, price=Decimal(n) / 4, at=START + datetime.timedelta(days=n))
        for n in range(100)
    )


def test_tables_are_the_stores_and_are_described(shop: Any) -> None:
    assert shop.store.execute("SELECT count(*), sum(value) FROM django_shop_reading").fetchall() == [(100, 2475.0)]
    with shop.connection.cursor() as cursor:
        described = shop.connection.introspection.get_table_description(cursor, "django_shop_host")
        assert [column.name for column in described] == ["id", "name"]
        constraints = shop.connection.introspection.get_constraints(cursor, "django_shop_host")
        assert [each["columns"] for each in constraints.values() if each["primary_key"]] == [["id"]]


def test_rows_are_filtered(shop: Any) -> None:
    from django.db.models import Exists, OuterRef, Q

    readings = shop.Reading.objects
    assert [each.id for each in readings.filter(value__gt=10, host__name="alpha").order_by("-id")[:2]] == [98, 96]
    assert readings.filter(Q(id__in=[1, 2]) | Q(at__date=datetime.date(2026, 1, 6))).count() == 3
    assert readings.filter(at__range=(START, START + datetime.timedelta(days=3)), at__year=2026).count() == 4
    for condition in ({"name__icontains": "ALP"}, {"name__startswith": "al"}, {"name__iexact": "Alpha"},
                      {"name__regex": "^a"}, {"name__endswith": "pha"}):  # fmt: skip
        assert [each.id for each in shop.Host.objects.filter(**condition)] == [1]
    assert shop.Host.objects.filter(Exists(readings.filter(host=OuterRef("pk"), id=7))).get().id == 2
    first = readings.select_related("host").get(id=5)
    assert (first.host.name, first.price, first.at, first.is_good) == (
        "beta", Decimal("1.25"), START + datetime.timedelta(days=5), True,
    )  # fmt: skip
    assert [len(each.reading_set.all()) for each in shop.Host.objects.prefetch_related("reading_set")] == [50, 50]
    assert sum(1 for _ in readings.iterator(chunk_size=7)) == 100


def test_rows_are_aggregated_and_annotated(shop: Any) -> None:
    from django.db.models import Avg, Case, Count, Max, OuterRef, Subquery, Sum, Value, When, Window
    from django.db.models.functions import Concat, ExtractYear, Lower, RowNumber, TruncMonth

    hosts, readings = shop.Host.objects.order_by("id"), shop.Reading.objects
    assert readings.aggregate(Sum("value"), n=Count("*"), last=Max("at")) == {
        "value__sum": 2475.0, "n": 100, "last": START + datetime.timedelta(days=99),
    }  # fmt: skip
    assert list(hosts.annotate(n=Count("reading"), m=Avg("reading__value")).values_list("n", "m")) == [
        (50, 24.5), (50, 25.0),
    ]  # fmt: skip
    months = readings.annotate(month=TruncMonth("at")).values("month").annotate(n=Count("id")).order_by("month")
    assert [each["n"] for each in months] == [31, 28, 31, 10]
    assert list(readings.annotate(y=ExtractYear("at")).values_list("y", flat=True).distinct()) == [2026]
    latest = readings.filter(host=OuterRef("pk")).order_by("-at").values("value")[:1]
    assert list(hosts.annotate(last=Subquery(latest)).values_list("last", flat=True)) == [49.0, 49.5]
    texts = hosts.annotate(low=Lower("name"), text=Concat("name", Value("!"))).values_list("low", "text")
    assert list(texts) == [("alpha", "alpha!"), ("beta", "beta!")]
    sizes = readings.annotate(size=Case(When(value__gt=40, then=Value("high")), default=Value("low")))
    assert dict(sizes.values_list("size").annotate(Count("id"))) == {"high": 19, "low": 81}
    place = Window(RowNumber(), partition_by="host", order_by="-at")
    assert list(readings.annotate(place=place).filter(place=1).order_by("id").values_list("id", flat=True)) == [98, 99]


def test_rows_are_changed(shop: Any) -> None:
    from django.db.models import F

    hosts, readings = shop.Host.objects, shop.Reading.objects
    assert readings.filter(id__lt=4).update(value=F("value") + 1) == 4
    assert readings.filter(host__name="alpha").update(is_good=False) == 50
    assert readings.bulk_update([shop.Reading(id=n, value=-1.0) for n in (10, 11)], ["value"]) == 2
    assert list(readings.filter(id__in=[3, 10, 11]).order_by("id").values_list("value", flat=True)) == [2.5, -1.0, -1.0]
    row = shop.Reading(id=1, host_id=1, value=7.0, at=START)
    readings.bulk_create([row], update_conflicts=True, unique_fields=["id"], update_fields=["value"])
    readings.bulk_create([shop.Reading(id=2, host_id=1, value=8.0, at=START)], ignore_conflicts=True)
    assert list(readings.filter(id__in=[1, 2]).order_by("id").values_list("value", "host_id")) == [(7.0, 2), (2.0, 1)]
    assert hosts.get_or_create(id=3, defaults={"name": "gamma"})[1]
    assert hosts.update_or_create(id=3, defaults={"name": "delta"}) == (hosts.get(id=3), False)
    assert hosts.filter(id=2).delete() == (51, {"django_shop.Reading": 50, "django_shop.Host": 1})
    assert (hosts.count(), readings.count()) == (2, 50)


def test_transactions_and_savepoints(shop: Any) -> None:
    from django.db import IntegrityError, transaction

    hosts = shop.Host.objects
    with pytest.raises(ValueError, match="undone"), transaction.atomic():
        hosts.create(id=9, name="x")
        with pytest.raises(IntegrityError), transaction.atomic():
            hosts.create(id=9, name="again")
        assert hosts.filter(id=9).exists()
        raise ValueError("undone")
    assert not hosts.filter(id=9).exists()
    with transaction.atomic():
        locked = hosts.select_for_update().get(id=1)
        locked.name = "omega"
        locked.save()
    assert shop.store.execute("SELECT name FROM django_shop_host WHERE id = 1").fetchall() == [("omega",)]


def test_what_migrations_need_is_refused_by_name(shop: Any) -> None:
    from django.db import NotSupportedError, models
    from django.db.migrations.exceptions import MigrationSchemaMissing
    from django.db.migrations.recorder import MigrationRecorder

    with pytest.raises(MigrationSchemaMissing, match="GENERATED is not supported"):
        MigrationRecorder(shop.connection).ensure_schema()
    with (
        pytest.raises(NotSupportedError, match="CREATE INDEX is not supported"),
        shop.connection.schema_editor() as editor,
    ):
        editor.add_index(shop.Host, models.Index(fields=["name"], name="by_name"))
