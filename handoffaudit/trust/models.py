"""Models of seals (a signed hash chain over decisions, verdicts and policy versions) and of the jobs that make them."""

import uuid
from typing import Any

from django.db import models

from handoffaudit.accounts.models import Tenant
from handoffaudit.trust.signatures import SEAL_PURPOSE, SEALED_FACTS, SealKey, hash_seal, sha256, utc


class SealKind(models.TextChoices):
    ROWS = "rows"
    # The next seals are signed with `new_key`.
    KEY = "key"
    # An erasure replaced a value in sealed rows. The seal has their new digests.
    ERASURE = "erasure"


class Seal(models.Model):
    """A signed entry of a tenant's chain of seals. Rows are only added, never changed.

    `rows` is the list of sealed rows with their digests (`pack` in `trust/signatures.py`). `first_event` to
    `last_verdict` are the smallest and greatest ids in this list, or 0 and null if the list has no such row.
    `last_policy` is the newest policy version in this list or in the list of an earlier seal, or 0 if there is none.
    `audit_number` and `audit_hash` are the newest entry of the audit log, and `reached` is the newest event that was
    looked at. `key_id` names the key of `signature`. Only a seal that changes the key has `new_key` and
    `new_signature`.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    number = models.PositiveBigIntegerField()
    at = models.DateTimeField()
    kind = models.CharField(max_length=10, choices=SealKind.choices)
    rows = models.BinaryField()
    first_event = models.BigIntegerField(default=0)
    last_event = models.BigIntegerField(default=0)
    first_verdict = models.UUIDField(null=True)
    last_verdict = models.UUIDField(null=True)
    last_policy = models.BigIntegerField(default=0)
    audit_number = models.PositiveBigIntegerField()
    audit_hash = models.CharField(max_length=64, blank=True)
    reached = models.BigIntegerField()
    previous_hash = models.CharField(max_length=64, blank=True)
    seal_hash = models.CharField(max_length=64)
    key_id = models.CharField(max_length=16)
    public_key = models.CharField(max_length=44)
    signature = models.CharField(max_length=88)
    new_key = models.CharField(max_length=44, blank=True)
    new_signature = models.CharField(max_length=88, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "number"], name="one_seal_per_number")]

    def __str__(self) -> str:
        return f"seal {self.number} of tenant {self.tenant_id}"

    @classmethod
    def head_of(cls, tenant: Tenant) -> "Seal | None":
        """Return the tenant's newest seal, without the list of its rows."""
        return cls.objects.filter(tenant=tenant).order_by("-number").defer("rows").first()

    @property
    def current_key(self) -> str:
        """Return the public key that signs the next seal."""
        return self.new_key if self.kind == SealKind.KEY else self.public_key

    def sign(self, key: SealKey) -> None:
        self.seal_hash = hash_seal(self.facts())
        self.signature = key.sign(SEAL_PURPOSE, self.seal_hash.encode())

    def facts(self) -> dict[str, Any]:
        """Return the values of the seal as texts and whole numbers; the rows as the hash of their list."""
        facts: dict[str, Any] = {}
        for name in (*SEALED_FACTS, "seal_hash", "signature", "new_signature"):
            value = getattr(self, "tenant_id" if name == "tenant" else name)
            facts[name] = str(value) if isinstance(value, uuid.UUID) else value
        return facts | {"at": utc(self.at), "rows": sha256(bytes(self.rows))}


class SealProgress(models.Model):
    """The progress of sealing over the events of all tenants, in a single row, like `Gathering` for webhooks."""

    reached = models.BigIntegerField(default=0)
    gaps = models.JSONField(default=list)
    pass_number = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"sealed up to event {self.reached}"


class TrustLease(models.Model):
    """The lease of sealing or of checkpoints, and the time until which a process holds the lease."""

    name = models.CharField(primary_key=True, max_length=50)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} until {self.at:%Y-%m-%d %H:%M:%S}"


class Checkpoint(models.Model):
    """The newest checkpoint of a tenant that was written outside the database.

    The next checkpoint is written only if the tenant has a newer audit entry or seal. `at` is the time of the last try,
    even if the try failed. Until the first checkpoint is written, both numbers are larger than any number in use.
    """

    tenant = models.OneToOneField(Tenant, on_delete=models.CASCADE, primary_key=True)
    at = models.DateTimeField()
    audit_number = models.PositiveBigIntegerField()
    seal_number = models.PositiveBigIntegerField()

    def __str__(self) -> str:
        return f"checkpoint of {self.tenant_id} at seal {self.seal_number}"
