"""Webhooks and e-mail subscribers for verdicts, decisions, alerts and finding groups, and their deliveries."""

from django.db import models
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models.handoff import new_id


class SubscriberKind(models.TextChoices):
    WEBHOOK = "webhook"
    EMAIL = "email"


class Subscriber(models.Model):
    """A receiver of events: a webhook, which gets signed requests, or an e-mail address.

    `events` lists `verdict`, `decision`, `alert` and `group`. `states` narrows verdicts to those with one of these
    states (empty: all). `secret` signs the requests; both sides need the secret, so it is stored in plain text. The
    subscriber gets the events after `heard_from`, when it was created or last enabled.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE)
    kind = models.CharField(max_length=10, choices=SubscriberKind.choices)
    name = models.CharField(max_length=100)
    address = models.CharField(max_length=500)
    secret = models.CharField(max_length=100, blank=True)
    events = models.JSONField(default=list)
    states = models.JSONField(default=list)
    active = models.BooleanField(default=True)
    heard_from = models.DateTimeField(default=timezone.now)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=200)

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"


class Delivery(models.Model):
    """The delivery of one event to one subscriber.

    `about` names the event and is unique for each subscriber. `payload` is the exact request body. `gave_up_at` is set
    after the last failed try.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, db_index=False)
    subscriber = models.ForeignKey(Subscriber, on_delete=models.CASCADE, db_index=False)
    event = models.CharField(max_length=10)
    about = models.CharField(max_length=100)
    payload = models.TextField()
    created_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True)
    tries = models.PositiveSmallIntegerField(default=0)
    claim = models.UUIDField(null=True)
    delivered_at = models.DateTimeField(null=True)
    gave_up_at = models.DateTimeField(null=True)
    last_status = models.PositiveSmallIntegerField(null=True)
    last_error = models.CharField(max_length=500, blank=True)
    last_ms = models.FloatField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["subscriber", "about"], name="one_delivery_per_event")]
        indexes = [
            # `due_at` is empty after a delivery succeeded or was given up.
            models.Index(fields=["due_at"], condition=models.Q(due_at__isnull=False), name="delivery_due"),
            models.Index(
                fields=["subscriber", "due_at"], condition=models.Q(due_at__isnull=False), name="delivery_due_of_one"
            ),
            models.Index(fields=["tenant", "subscriber", "id"], name="delivery_by_subscriber"),
        ]

    def __str__(self) -> str:
        return f"{self.about}, {self.tries} tries"


class Gathering(models.Model):
    """The progress of the scan for events to deliver: a single row.

    All events up to `reached` were scanned, except for the ids in `gaps`: `[first, last, seconds since 1970 when the
    ids were found missing]`. An id can be missing for a while, because transactions commit in another order than they
    draw their ids. `pass_number` counts the scans, so that one of two concurrent scans ends.
    """

    reached = models.BigIntegerField(default=0)
    gaps = models.JSONField(default=list)
    pass_number = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"events up to {self.reached}"
