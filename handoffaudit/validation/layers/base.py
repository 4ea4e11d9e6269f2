"""The interface of a layer, and the handoff under validation that every layer receives."""

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
    """The earlier handoffs of the trace, as far as the server knows them.

    `derived` is the chain up to and including the source of this handoff, with returns folded (A→B→A becomes one link
    back at A). `derived_full` is the same chain unfolded. Both are None if no earlier handoff is known.
    `derived_complete` is False if an ancestor is missing, so that only the end of the chain is known.

    `repeats` is the number of earlier handoffs of the trace with the same source, target and data hash. `unknown` holds
    the handoffs that this handoff names (its parent, the handoff it retries) and that have not arrived.
    """

    derived: tuple[str, ...] | None = None
    derived_full: tuple[str, ...] | None = None
    derived_complete: bool = True
    repeats: int = 0
    unknown: tuple[str, ...] = ()


@dataclass(slots=True)
class Findings:
    """The results of the layers besides issues, for the verdict and for the layers that run later.

    `notes` holds, by layer, what a layer that ran did not check. `models` and `prompts` hold, by layer, the LLM that
    was asked and the prompt. `unverified` is True if the LLM could not be asked. `issues` holds the issues found so
    far.
    """

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
    """One handoff under validation.

    `files` is None if the sender's files cannot be seen. `remediation` is the record of the earlier attempts, None for
    the first attempt. `known_agents` is None if there is no agent registry. `model` is None if the LLM is asked in a
    later run. `sent` is the document as it arrived, None for a document that never arrived, such as a repair candidate.
    """

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
    """An error raised by a layer that cannot run because of an external problem. The sender sees its text."""


class NotCheckedError(Exception):
    """An error raised by a layer that could not see the subject of its check.

    The layer counts as skipped, with the text of the error as the reason. Issues that the layer found earlier are kept.
    """


class AskedLater(Exception):
    """A signal raised by a layer whose LLM is asked in a later run. The layer reports nothing until then."""


class Layer(Protocol):
    """A module of this package with a `name`.

    `check` never raises because of the content of a handoff. It raises `CouldNotRunError` if an external dependency
    fails.
    """

    @property
    def name(self) -> str: ...

    def skip(self, subject: Subject) -> str | None:
        """Return why the layer does not run for this handoff, or None if the layer runs."""
        ...

    def check(self, subject: Subject) -> Iterable[Issue]:
        """Return the issues found."""
        ...
