"""The model of policies: each kind of policy as a series of whole versions."""

from django.db import models

from handoffaudit.accounts.models import Tenant


class Kind(models.TextChoices):
    STRICTNESS = "strictness"
    RULES = "rules"
    SCHEMAS = "schemas"
    PROMPTS = "prompts"
    HANDOFF_FILES = "handoff_files"
    AGENTS = "agents"
    ROLES = "roles"
    THRESHOLDS = "thresholds"
    RETENTION = "retention"


class PolicyVersion(models.Model):
    """A saved state of one kind of policy. Versions are only added; the newest version applies.

    `content` is JSON as text, because a JSON column of PostgreSQL does not keep the order of a schema's keys.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE)
    kind = models.CharField(max_length=20, choices=Kind.choices)
    number = models.PositiveIntegerField()
    content = models.TextField()
    changed_by = models.CharField(max_length=200)
    changed_at = models.DateTimeField(auto_now_add=True)
    note = models.CharField(max_length=500, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "kind", "number"], name="one_version_per_number")]

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"
