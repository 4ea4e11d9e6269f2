"""Models of reviews by the LLM and by people.

They are LLM checks, calls, answers and cost; approvals, proposals, assignments and comments; alerts, dry runs, cases
and legal holds.
"""

from django.db import models

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs.leases import Leased
from handoffaudit.handoffs.models.handoff import Handoff, new_id


class CheckKind(models.TextChoices):
    FIRST = "first"
    RECHECK = "recheck"
    # The LLM is asked to repair a rejected handoff that the repair by rules could not repair.
    REPAIR = "repair"


class ModelCheck(Leased):
    """A handoff that waits for the LLM: for its first check, for a recheck, or for a repair.

    The row is deleted after the check. The queue has its own table, so that workers never search all handoffs for work.
    """

    handoff = models.OneToOneField(
        Handoff, on_delete=models.DO_NOTHING, db_constraint=False, primary_key=True, related_name="check_due"
    )
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    kind = models.CharField(max_length=10, choices=CheckKind.choices)
    since = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["kind", "handoff"], name="model_check_by_kind")]

    def __str__(self) -> str:
        return f"{self.kind} check of {self.handoff_id}"


class ModelCall(models.Model):
    """A question to the LLM, with all its tries. Rows are added, and only an erasure changes them.

    `outcome` is `ok` or the reason for the missing answer. A `cached` call reused an earlier answer and cost nothing.
    `latency_ms` is the sum over all tries.
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
    """A stored answer of the LLM, so that the same question is asked only once.

    `key` is the hash of the LLM's name and the whole question. The answer is stored as soon as it arrives, so that
    nobody pays for the same question again if the worker dies.
    """

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
    """The money a tenant spent on the LLM in a day (UTC), including the reservations of calls under way."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, db_index=False)
    day = models.DateField()
    usd = models.FloatField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "day"], name="one_spend_per_day")]

    def __str__(self) -> str:
        return f"{self.usd:.2f} USD on {self.day}"


class ModelBreaker(models.Model):
    """The circuit breaker of an LLM, which all processes share.

    After several failures in a row, the breaker stops the calls for a while.
    """

    model = models.CharField(max_length=100, primary_key=True)
    failures = models.PositiveIntegerField(default=0)
    open_until = models.DateTimeField(null=True)
    probing_until = models.DateTimeField(null=True)
    reason = models.CharField(max_length=20, blank=True)

    def __str__(self) -> str:
        return f"breaker of {self.model}, {self.failures} failures in a row"


class Alert(models.Model):
    """A sign that a person should look. Only one alert of a kind is active at a time.

    An alert is active while `acknowledged_at` is empty: until a person acknowledges the alert, or until the system
    resolves it. `kind` names an event or an alert rule. The alert of a rule has the latest measurement in `value`, and
    the system resolves this alert. `notified_at` is the time of the last notification; webhooks are notified again
    while the alert is active.
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


class ReviewHold(models.Model):
    """A record that a person has a waiting handoff open. The hold expires, and other people can still decide."""

    # With a foreign key constraint, PostgreSQL would search this table for each handoff that is deleted.
    handoff = models.OneToOneField(Handoff, on_delete=models.DO_NOTHING, db_constraint=False, primary_key=True)
    person = models.ForeignKey(Person, on_delete=models.CASCADE)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.person} until {self.until}"


class Approval(models.Model):
    """An approval: the permission for the sender to go on once, with this document, under this policy.

    `document_hash` is the hash of the document with its context and evidence. `used_by` is the key that used the
    approval, or the `handoff_id` of the retry that it was carried to. `use_key` is the hash of the idempotency key of
    the call that used the approval, so that the sender can repeat this call.
    """

    handoff = models.OneToOneField(
        Handoff, on_delete=models.DO_NOTHING, db_constraint=False, primary_key=True, related_name="approval"
    )
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    document_hash = models.CharField(max_length=64)
    policy_versions = models.JSONField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    used_by = models.CharField(max_length=200, blank=True)
    use_key = models.CharField(max_length=64, blank=True)

    def __str__(self) -> str:
        return f"approval of {self.handoff_id} until {self.expires_at}"


class PassedOn(models.Model):
    """The assignment of a handoff to one person. For a waiting handoff that is set aside, `to` is None.

    The handoff keeps its state, and no rate counts the assignment. A handoff with a valid assignment is not in the
    review queue. The assignment is valid while the handoff has this `version` and `to` may decide. `over` says whether
    a decision or a proposal ended the assignment. `replaced` is the assignment that this assignment replaced (by, to,
    note, and at as text). The replaced assignment is restored if this assignment is undone.
    """

    handoff = models.OneToOneField(Handoff, on_delete=models.DO_NOTHING, db_constraint=False, primary_key=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    by = models.CharField(max_length=200)
    to = models.ForeignKey(Person, on_delete=models.SET_NULL, null=True)
    note = models.TextField(blank=True)
    version = models.PositiveIntegerField()
    over = models.BooleanField(default=False, db_default=False)
    at = models.DateTimeField()
    replaced = models.JSONField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["tenant", "handoff"], condition=models.Q(over=False), name="passed_on_by_tenant")
        ]

    def __str__(self) -> str:
        return f"{self.handoff_id} passed on by {self.by}"


class Comment(models.Model):
    """A comment of a person or a key on a handoff, as plain text. A comment changes nothing else about the handoff.

    The row of a removed comment stays without its text, so that the activity still shows that there was a comment.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    handoff = models.ForeignKey(Handoff, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    actor_kind = models.CharField(max_length=10)
    actor = models.CharField(max_length=200)
    text = models.TextField(blank=True)
    at = models.DateTimeField()
    edited_at = models.DateTimeField(null=True)
    removed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["tenant", "handoff", "at"], name="comment_by_handoff")]

    def __str__(self) -> str:
        return f"comment of {self.actor} on {self.handoff_id}"

    @property
    def author(self) -> dict[str, str]:
        """Return the author of the comment in the form of the API."""
        return {"kind": self.actor_kind, "name": self.actor}


class Proposal(models.Model):
    """The first of the two decisions on a handoff whose type requires four eyes.

    The proposal is valid while the handoff has this `version`; `over` says whether a decision ended the proposal.
    `replaced` is the proposal that this proposal replaced (decision, note, actor_kind, actor, and at as text). The
    replaced proposal is restored if this proposal is withdrawn.
    """

    handoff = models.OneToOneField(Handoff, on_delete=models.DO_NOTHING, db_constraint=False, primary_key=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    decision = models.CharField(max_length=10)
    note = models.TextField(blank=True)
    actor_kind = models.CharField(max_length=10)
    actor = models.CharField(max_length=200)
    version = models.PositiveIntegerField()
    over = models.BooleanField(default=False, db_default=False)
    at = models.DateTimeField()
    replaced = models.JSONField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["tenant", "handoff"], condition=models.Q(over=False), name="proposal_by_tenant")
        ]

    def __str__(self) -> str:
        return f"{self.decision} of {self.handoff_id} by {self.actor}"

    @property
    def author(self) -> dict[str, str]:
        """Return the actor of the proposal in the form of the API."""
        return {"kind": self.actor_kind, "name": self.actor}


class Trial(Leased):
    """A dry run: a draft policy evaluated on past handoffs, to count how many verdicts would change.

    `draft` is the policy content as JSON. The newest handoff is judged first; `reached` is the handoff judged last.
    `flips` counts verdict changes by `before>after`. `changed` has the first changed handoffs:
    `{handoff, handoff_id, before, after, codes, levels, deciding}`. There, `levels` are the severities of `codes`, and
    `deciding` is the number of all deciding rule codes. Some judged handoffs have no verdicts to compare: `unasked`
    counts handoffs for which the LLM could not be asked, `removed` counts handoffs whose documents were removed.
    `cases` has the results of the cases.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE)
    kind = models.CharField(max_length=20)
    draft = models.TextField()
    base_version = models.PositiveIntegerField()
    handoff_types = models.JSONField(default=list)
    most = models.PositiveIntegerField()
    since = models.DateTimeField(null=True)
    started_by = models.CharField(max_length=200)
    started_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=500, blank=True)
    total = models.PositiveIntegerField(default=0)
    judged = models.PositiveIntegerField(default=0)
    unasked = models.PositiveIntegerField(default=0)
    removed = models.PositiveIntegerField(default=0, db_default=0)
    cases = models.JSONField(default=dict, db_default={})
    reached = models.UUIDField(null=True)
    flips = models.JSONField(default=dict)
    changed = models.JSONField(default=list)

    class Meta:
        indexes = [
            models.Index(fields=["id"], condition=models.Q(finished_at=None), name="trial_unfinished"),
            models.Index(fields=["tenant", "id"], name="trial_by_time"),
        ]

    def __str__(self) -> str:
        return f"trial of {self.kind}, {self.judged} of {self.total}"


class PolicyCase(models.Model):
    """A copy of a handoff with the verdict that the handoff should have, for tests of policies.

    The copy stays the same when the handoff changes or is removed. `beside` has the fields of the submission except
    `document`. `basis` has the chain, tool results and facts that were known of the trace. Both fields are JSON.
    `result` is the last result with the policies in force.
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, db_index=False)
    handoff = models.UUIDField()
    handoff_id = models.CharField(max_length=200)
    handoff_type = models.CharField(max_length=200, blank=True)
    document = models.BinaryField()
    beside = models.TextField()
    basis = models.TextField()
    received_at = models.DateTimeField()
    size = models.PositiveIntegerField()
    expected = models.CharField(max_length=10)
    must_have = models.JSONField(default=list)
    must_not_have = models.JSONField(default=list)
    note = models.TextField(blank=True)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    result = models.JSONField(default=dict)
    tested_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["tenant", "id"], name="policy_case_by_time")]

    def __str__(self) -> str:
        return f"case {self.handoff_id}, {self.expected}"


class HoldScope(models.TextChoices):
    HANDOFF = "handoff"
    TRACE = "trace"
    TENANT = "tenant"


class LegalHold(models.Model):
    """An order to keep data. While a hold is active, nothing removes the data that the hold names.

    `key` is the primary key of the handoff or the id of the trace, and empty for the whole tenant. `name` is the
    `handoff_id`, the id of the trace, or the slug of the tenant. A lifted hold stays as a record.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, db_index=False)
    scope = models.CharField(max_length=10, choices=HoldScope.choices)
    key = models.CharField(max_length=200, blank=True)
    name = models.CharField(max_length=200, blank=True)
    reason = models.TextField()
    placed_by = models.CharField(max_length=200)
    placed_at = models.DateTimeField()
    lifted_by = models.CharField(max_length=200, blank=True)
    lifted_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "scope", "key"], condition=models.Q(lifted_at=None), name="one_active_hold"
            )
        ]
        indexes = [models.Index(fields=["tenant", "id"], name="legal_hold_by_tenant")]

    def __str__(self) -> str:
        return f"hold on {self.scope} {self.key}".strip()
