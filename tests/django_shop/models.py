"""Two models with a relation: keys are given by the program, and the store has no index or constraint of them."""

from django.db import models


class Host(models.Model):
    """The side of one."""

    id = models.BigIntegerField(primary_key=True)
    name = models.CharField(max_length=50)


class Reading(models.Model):
    """The side of many."""

    id = models.BigIntegerField(primary_key=True)
    host = models.ForeignKey(Host, models.CASCADE, db_constraint=False, db_index=False)
    value = models.FloatField(null=True)
    price = models.DecimalField(max_digits=9, decimal_places=2, null=True)
    at = models.DateTimeField()
    is_good = models.BooleanField(default=True)
