"""What a layer is, and what it is given."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from handoffaudit.validation.claims import Claim
from handoffaudit.validation.config import Requirements, TypePolicy
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.ports import FileView, LanguageModel
from handoffaudit.validation.record import Record
from handoffaudit.validation.remediation import RemediationLog
from handoffaudit.validation.tokenizers import TokenCounter
from handoffaudit.validation.verdict import ChainFacts, Critique, TokenCounts


@dataclass(frozen=True, slots=True)
class History:
    """What the server knows of the handoffs before this one.

    `derived`: the chain up to and with this handoff's source, returns folded (A→B→A is one link back at A);
    `derived_full`: the same unfolded; both None where no earlier handoff is known. `derived_complete` is False where an
    ancestor is missing, so that only the chain's end is known. `repeats`: how many EARLIER handoffs of the trace have
    the same source, target and data hash. `unknown`: of the handoffs that it names (its parent, the one it retries),
    those that have not arrived.
    """

    derived: tuple[str, ...] | None = None
    derived_full: tuple[str, ...] | None = None
    derived_complete: bool = True
    repeats: int = 0
    unknown: tuple[str, ...] = ()


@dataclass(slots=True)
class Findings:
    """What layers found beside issues, for the verdict and for the layers after them. `notes` by layer: what it did not
    look at, though it ran. `models` and `prompts` by layer: which model was asked, by which prompt. `unverified`:
    the model could not be asked. `issues` are those found so far."""

    token_counts: TokenCounts | None = None
    chain: ChainFacts | None = None
    claims: tuple[Claim, ...] = ()
    notes: dict[str, str] = field(default_factory=dict)
    issues: list[Issue] = field(default_factory=list)
    models: dict[str, str] = field(default_factory=dict)
    prompts: dict[str, str] = field(default_factory=dict)
    critique: Critique | None = None
    unverified: bool = False


@dataclass(slots=True)
class Subject:
    """One handoff under validation. `files` is None where the sender's files cannot be seen; `remediation` is the
    record of its earlier attempts, None for the first; `known_agents` is None where there is no registry of them;
    `model` is None where it is asked later; `sent` is the document as it arrived, None where it never did."""

    record: Record
    policy: TypePolicy
    history: History
    received_at: datetime
    counter: TokenCounter
    files: FileView | None = None
    policy_version: int = 0
    policy_versions: Mapping[str, int] = field(default_factory=dict)
    demands: Requirements = field(default_factory=Requirements)
    remediation: RemediationLog | None = None
    known_agents: frozenset[str] | None = None
    model: LanguageModel | None = None
    findings: Findings = field(default_factory=Findings)
    sent: bytes | None = None


class CouldNotRunError(Exception):
    """Raised by a layer that something outside keeps from running; its text is shown to the sender."""


class NotCheckedError(Exception):
    """Raised by a layer that could not see what it is about: it counts as skipped, with the text of the error as the
    reason. What the layer found before stays."""


class AskedLater(Exception):
    """Raised by a layer whose model is asked in a later run: until then it has found nothing."""


class Layer(Protocol):
    """A module of this package with a `name`.

    `check` never raises for what a sender sent, and raises `CouldNotRunError` where the world outside fails it.
    """

    @property
    def name(self) -> str: ...

    def skip(self, subject: Subject) -> str | None:
        """Why the layer does not run for this handoff, or None where it does."""
        ...

    def check(self, subject: Subject) -> Iterable[Issue]:
        """The issues found."""
        ...
