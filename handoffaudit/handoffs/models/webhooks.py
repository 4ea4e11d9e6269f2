"""Who outside wants to hear of verdicts, decisions, alerts and finding groups, and what was sent to them."""

from django.db import models
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models.handoff import new_id


class SubscriberKind(models.TextChoices):
    WEBHOOK = "webhook"
    EMAIL = "email"


class Subscriber(models.Model):
    """An address that hears of events: a web address that gets signed requests, or an e-mail address.

    `events` are of `verdict`, `decision`, `alert`, `group`; `states` narrows verdicts to those that end in one of them
    (empty: all). `secret` signs requests; both sides need it, so it is kept as it is. It hears of what happens after
    `heard_from`: since it was made, or was switched on again.
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
    """One event for one subscriber. `about` names the event, once for each subscriber; `payload` is what is sent, to
    the byte. Given up after the last try: `gave_up_at`."""

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
            # `due_at` is empty once it is delivered or given up.
            models.Index(fields=["due_at"], condition=models.Q(due_at__isnull=False), name="delivery_due"),
            models.Index(
                fields=["subscriber", "due_at"], condition=models.Q(due_at__isnull=False), name="delivery_due_of_one"
            ),
            models.Index(fields=["tenant", "subscriber", "id"], name="delivery_by_subscriber"),
        ]

    def __str__(self) -> str:
        return f"{self.about}, {self.tries} tries"


class Gathering(models.Model):
    """How far events were gone over for subscribers: one row. Every event up to `reached` was, but for those in `gaps`:
    ids that were not there yet, as `[first, last, seconds since 1970 when they were missed]`. Transactions end in
    another order than their ids are given out. `pass_number` counts the passes, so that of two at once one ends."""

    reached = models.BigIntegerField(default=0)
    gaps = models.JSONField(default=list)
    pass_number = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"events up to {self.reached}"
