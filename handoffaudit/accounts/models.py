"""Models of accounts: tenants, people and their roles, API keys, the audit log, and saved views."""

from typing import Final

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models.functions import Lower

from handoffaudit.validation.tool_results import EVIDENCE, Grade


class Tenant(models.Model):
    """The customer or team that owns the data."""

    slug = models.SlugField(max_length=100, unique=True)
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    # The number of the newest audit entry. With this number, a check notices that the newest entries were deleted.
    audit_number = models.PositiveBigIntegerField(default=0)
    # A sample tenant holds only sample data. One click removes the tenant and its data.
    is_sample = models.BooleanField(default=False, db_default=False)

    def __str__(self) -> str:
        return self.slug


class Person(AbstractUser):
    """A person who signs in."""

    tenants: "models.ManyToManyField[Tenant, Membership]" = models.ManyToManyField(Tenant, through="Membership")
    # The number of one-time links made for this person. Only the newest link works.
    link_number = models.PositiveIntegerField(default=0)
    # The time zone in which pages show times; empty: the time zone of the browser.
    time_zone = models.CharField(max_length=64, blank=True, default="", db_default="")

    class Meta(AbstractUser.Meta):
        # Sign-in ignores the case of names. If two names differed only in case, neither person could sign in.
        constraints = [models.UniqueConstraint(Lower("username"), name="one_person_per_name")]


class Role(models.TextChoices):
    VIEWER = "viewer"
    REVIEWER = "reviewer"
    ADMIN = "admin"

    def includes(self, other: "Role") -> bool:
        """Return whether this role has all rights of the other role."""
        return other in INCLUDED[self]

    @classmethod
    def list_including(cls, other: "Role") -> list["Role"]:
        """Return the roles that have all rights of the other role."""
        return [role for role in cls if role.includes(other)]


# Each role has the rights of these roles. The table allows two roles of which neither includes the other.
INCLUDED: Final = {
    Role.VIEWER: {Role.VIEWER},
    Role.REVIEWER: {Role.VIEWER, Role.REVIEWER},
    Role.ADMIN: set(Role),
}

RIGHTS: Final = {
    Role.VIEWER: "reads everything but the settings",
    Role.REVIEWER: "also decides, assigns and repairs handoffs, and mutes finding groups",
    Role.ADMIN: "also changes policies, people, keys and other settings",
}


class Membership(models.Model):
    """The role of a person in a tenant."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE)
    person = models.ForeignKey(Person, on_delete=models.CASCADE)
    role = models.CharField(max_length=10, choices=Role.choices)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "person"], name="one_role_per_tenant"),
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="role_is_known"),
        ]

    def __str__(self) -> str:
        return f"{self.person} is {self.role} in {self.tenant}"


class Scope(models.TextChoices):
    INGEST = "ingest"
    # A key with this scope sends tool results that the host captured.
    OBSERVE = "observe"
    READ = "read"
    REVIEW = "review"
    ADMIN = "admin"


class Key(models.Model):
    """An API key of a tenant. Only the secret's SHA-256 is stored: the secret has 256 random bits and needs no salt.

    `seam` says where a key with the scope `observe` captures tool results, and is empty for other keys. `agents` has
    the names and patterns of the agents that the key may speak for, and is empty for a key that speaks for any agent.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE)
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16)
    secret_hash = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list)
    seam = models.CharField(
        max_length=10, blank=True, default="", db_default="", choices=[(grade.value, grade.value) for grade in EVIDENCE]
    )
    agents = models.JSONField(default=list, db_default=[])
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=150)
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def grade(self) -> Grade:
        """Return the grade of the tool results that are sent with this key."""
        return Grade(self.seam) if self.seam and Scope.OBSERVE in self.scopes else Grade.SAID


class AuditEntry(models.Model):
    """An entry of the audit log: who changed what in a tenant.

    Each entry has the hash of the entry before it, so that `audit.verify` finds a later change.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    number = models.PositiveBigIntegerField()
    at = models.DateTimeField()
    actor = models.CharField(max_length=200)
    action = models.CharField(max_length=50)
    target = models.CharField(max_length=300)
    detail = models.JSONField(default=dict)
    previous_hash = models.CharField(max_length=64)
    entry_hash = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "number"], name="audit_entries_in_one_row")]

    def __str__(self) -> str:
        return f"{self.number} {self.action} {self.target}"


class SavedView(models.Model):
    """Filters of a page, saved under a name for one person or, if `person` is null, for everybody in the tenant.

    `page` is the name of the page's URL pattern, `query` the part of the address after the question mark.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE)
    person = models.ForeignKey(Person, on_delete=models.CASCADE, null=True)
    page = models.CharField(max_length=50)
    name = models.CharField(max_length=100)
    query = models.CharField(max_length=2000)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "page", "name", "person"],
                condition=models.Q(person__isnull=False),
                name="one_view_per_name_and_person",
            ),
            models.UniqueConstraint(
                fields=["tenant", "page", "name"],
                condition=models.Q(person__isnull=True),
                name="one_shared_view_per_name",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.page})"


class DefaultView(models.Model):
    """The default view of a page for one person or, if `person` is null, for everybody in the tenant.

    The default view is either the saved view `view`, or `built_in`, the name of a view that the page defines itself. A
    row with neither of them means that the page opens without filters.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE)
    person = models.ForeignKey(Person, on_delete=models.CASCADE, null=True)
    page = models.CharField(max_length=50)
    view = models.ForeignKey(SavedView, on_delete=models.CASCADE, null=True)
    built_in = models.CharField(max_length=40, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "page", "person"],
                condition=models.Q(person__isnull=False),
                name="one_default_view_per_person",
            ),
            models.UniqueConstraint(
                fields=["tenant", "page"],
                condition=models.Q(person__isnull=True),
                name="one_default_view_for_everybody",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.view or self.built_in or 'no view'} ({self.page})"
