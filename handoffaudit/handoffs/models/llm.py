"""Handoffs that wait for the LLM, the calls to it, its answers, its cost, its circuit breaker, and alerts."""

from django.db import models

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models.handoff import Handoff, new_id


class CheckKind(models.TextChoices):
    FIRST = "first"
    RECHECK = "recheck"
    # Rejected already, and no rule could mend it: the model is asked for a repair.
    REPAIR = "repair"


class ModelCheck(models.Model):
    """A handoff that the model is to be asked about: for the first time, or again since it could not be asked then.

    Gone once it was made. A queue of its own, so that looking for work never reads the handoffs.
    """

    handoff = models.OneToOneField(
        Handoff, on_delete=models.DO_NOTHING, db_constraint=False, primary_key=True, related_name="check_due"
    )
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    kind = models.CharField(max_length=10, choices=CheckKind.choices)
    since = models.DateTimeField()
    claim = models.UUIDField(null=True)
    claim_expires_at = models.DateTimeField(null=True)
    tries = models.PositiveSmallIntegerField(default=0)

    class Meta:
        indexes = [models.Index(fields=["kind", "handoff"], name="model_check_by_kind")]

    def __str__(self) -> str:
        return f"{self.kind} check of {self.handoff_id}"


class ModelCall(models.Model):
    """One question to the model, with all its tries. Only added, never changed.

    `outcome` is `ok` or the reason why there is no answer; a `cached` one was answered before, and cost nothing now.
    Costs in USD, `latency_ms` over all tries.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    handoff = models.UUIDField(null=True)
    at = models.DateTimeField()
    use = models.CharField(max_length=10)
    model = models.CharField(max_length=100)
    prompt = models.CharField(max_length=200)
    outcome = models.CharField(max_length=20)
    http_status = models.PositiveSmallIntegerField(null=True)
    detail = models.CharField(max_length=500, blank=True)
    tokens_in = models.PositiveIntegerField(default=0)
    tokens_out = models.PositiveIntegerField(default=0)
    tokens_cached = models.PositiveIntegerField(default=0)
    cost_usd = models.FloatField(default=0)
    latency_ms = models.FloatField(default=0)
    tries = models.PositiveSmallIntegerField(default=0)
    cached = models.BooleanField(default=False)

    class Meta:
        indexes = [
            models.Index(fields=["tenant", "at"], name="model_call_by_time"),
            models.Index(fields=["tenant", "handoff"], name="model_call_by_handoff"),
        ]

    def __str__(self) -> str:
        return f"{self.use} by {self.model}: {self.outcome}"


class ModelAnswer(models.Model):
    """An answer kept, so that an equal question is asked once. `key` is the hash of the model, the prompt and all that
    was sent. Written as soon as it came: a worker that dies right after pays nothing twice."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, db_index=False)
    key = models.CharField(max_length=64)
    model = models.CharField(max_length=100)
    text = models.TextField()
    cost_usd = models.FloatField()
    latency_ms = models.FloatField()
    at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "key"], name="one_answer_per_question")]

    def __str__(self) -> str:
        return f"answer of {self.model}"


class ModelSpend(models.Model):
    """What a tenant spent on the model in one day (UTC), with what is reserved for calls under way."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, db_index=False)
    day = models.DateField()
    usd = models.FloatField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "day"], name="one_spend_per_day")]

    def __str__(self) -> str:
        return f"{self.usd:.2f} USD on {self.day}"


class ModelBreaker(models.Model):
    """Whether a model is called at all, for every process: several failures in a row open the breaker for a while."""

    model = models.CharField(max_length=100, primary_key=True)
    failures = models.PositiveIntegerField(default=0)
    open_until = models.DateTimeField(null=True)
    probing_until = models.DateTimeField(null=True)
    reason = models.CharField(max_length=20, blank=True)

    def __str__(self) -> str:
        return f"breaker of {self.model}, {self.failures} failures in a row"


class Alert(models.Model):
    """Something that a person should look at, until somebody says that they have. One of a kind is open at a time.

    `kind` is an event, or a threshold that is passed (then `value` is the last figure, and it closes by itself).
    `notified_at`: when subscribers were last told; they are told again after a while.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, db_index=False)
    kind = models.CharField(max_length=40)
    level = models.CharField(max_length=10, default="alert", db_default="alert")
    value = models.FloatField(null=True)
    notified_at = models.DateTimeField(null=True)
    opened_at = models.DateTimeField()
    last_at = models.DateTimeField()
    number = models.PositiveIntegerField(default=1)
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.CharField(max_length=200, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "kind"], condition=models.Q(acknowledged_at=None), name="one_open_alert_per_kind"
            )
        ]
        indexes = [models.Index(fields=["tenant", "opened_at"], name="alert_by_time")]

    def __str__(self) -> str:
        return f"{self.kind}: {self.number}"
