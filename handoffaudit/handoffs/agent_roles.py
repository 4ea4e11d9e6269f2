"""The roles of agents as pages and the API show them: declared, or guessed from names and behaviour."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models import AgentBehaviour
from handoffaudit.policy import agent_roles, kinds
from handoffaudit.policy.agent_roles import DeclaredRole
from handoffaudit.policy.versions import Table
from handoffaudit.validation.roles import WORKER, AgentRole, SourceRole, guess_by_behaviour, guess_by_name


@dataclass(frozen=True, slots=True)
class ShownRole:
    """The role of an agent, with the declaration if there is one, and the role that would be guessed without it."""

    agent: str
    guessed: SourceRole
    declared: DeclaredRole | None = None

    @property
    def role(self) -> AgentRole:
        return self.declared.role if self.declared else self.guessed.role

    @property
    def is_declared(self) -> bool:
        return self.declared is not None

    @property
    def words(self) -> str:
        """Return the role and its origin: `observer, guessed`."""
        return f"{self.role.value}, {'declared' if self.is_declared else 'guessed'}"


def load_roles(tenant: Tenant, agents: Iterable[str]) -> dict[str, ShownRole]:
    """Return the role of each agent by name."""
    names = set(agents)
    declared = {row.agent: row for row in kinds.roles.current(tenant).rows}
    rows = AgentBehaviour.objects.filter(tenant=tenant, agent__in=names)
    behaviour = dict(rows.values_list("agent", "forms"))
    return {
        name: ShownRole(
            name, guess_by_name(name) or guess_by_behaviour(behaviour.get(name, "")) or WORKER, declared.get(name)
        )
        for name in names
    }


def declared_roles(tenant_id: int) -> dict[str, SourceRole]:
    """Return the declared roles of a tenant by agent."""
    declared = kinds.load_config(tenant_id).roles
    return {agent: SourceRole(role, is_declared=True) for agent, role in declared.items()}


def declare_role(tenant: Tenant, agent: str, role: str, actor: str, note: str = "") -> Table[DeclaredRole]:
    """Declare the role of one agent. Raise `InvalidPolicy` for a role or a name that does not exist."""
    row = agent_roles.declare(agent, role, actor, timezone.now())
    version = kinds.roles.current(tenant).version
    return kinds.roles.upsert_row(tenant=tenant, base_version=version, row=row, actor=actor, note=note)


def declare_roles(tenant: Tenant, agents: Iterable[str], role: str, actor: str, note: str = "") -> Table[DeclaredRole]:
    """Declare the role of several agents as one version; an empty role withdraws their declarations.

    Raise `InvalidPolicy` for a role or a name that does not exist.
    """
    names, now, table = list(agents), timezone.now(), kinds.roles.current(tenant)
    rows = [row for row in table.rows if row.agent not in names]
    rows += [agent_roles.declare(name, role, actor, now) for name in names if role]
    return kinds.roles.save(tenant=tenant, base_version=table.version, rows=rows, actor=actor, note=note)


def withdraw_role(tenant: Tenant, agent: str, actor: str, note: str = "") -> Table[DeclaredRole]:
    """Withdraw the declaration of an agent, whose role is guessed from then on."""
    table = kinds.roles.current(tenant)
    if table.row(agent) is None:
        return table
    return kinds.roles.delete_row(tenant=tenant, base_version=table.version, name=agent, actor=actor, note=note)
