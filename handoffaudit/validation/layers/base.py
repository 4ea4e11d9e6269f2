"""The interfaces of layers and of the services that callers provide, and the subject that every layer receives."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Protocol

import msgspec

from handoffaudit.validation.agents import SourceRole, guess_role
from handoffaudit.validation.claims import Claim, Source
from handoffaudit.validation.config import Requirements, TypePolicy
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.prompts.question import Answer, Question
from handoffaudit.validation.record import Record
from handoffaudit.validation.remediation import RemediationLog
from handoffaudit.validation.tokenizers import TokenCounter
from handoffaudit.validation.verdict import ChainFacts, Critique, TokenCounts


class FileView(Protocol):
    """The sender's files, if the validator can see them."""

    def exists(self, path: str) -> bool | None:
        """Return whether the file exists, or None if the path is outside the allowed folders.

        Raises OSError if the lookup failed.
        """
        ...


class FileStore(Protocol):
    """A writable place beside the sender's files."""

    def write(self, path: str, content: bytes) -> str | None:
        """Write a file with its folders. Return the path that references should use, or None for `path` itself.

        The path contains values of the sender, so it may lead anywhere. Raises OSError if the path leads outside the
        allowed folders, or if the file could not be written.
        """
        ...


class Summarizer(Protocol):
    """An LLM that shortens texts."""

    def shorten(self, text: str, most: int) -> str | None:
        """Return the text in at most `most` characters, or None if no shorter text could be made."""
        ...


class LanguageModel(Protocol):
    """The caller's client of an LLM."""

    def ask(self, question: Question) -> Answer:
        """Wait for the answer and return it, parsed by the question's reader.

        Raises `prompts.question.Unavailable` if there is no usable answer.
        """
        ...


class History(msgspec.Struct, frozen=True):
    """The earlier handoffs of the trace, as far as the server knows them.

    `derived` is the chain up to and including the source of this handoff, with returns folded (see `fold_returns` in
    `handoffaudit.handoffs.lineage`). `derived_full` is the same chain unfolded. If the sender declares a chain, or the
    format has no field for a chain, both chains follow only the parents that handoffs name. Both chains are then
    None if the parent of this handoff is not known. `derived_complete` is False if an ancestor is missing, so that only
    the end of the chain is known.

    `returns` counts the returns: handoffs whose target had the work before. Only this handoff and its ancestors with
    the same source and target are counted. `returns` is 0 if the sender declares a chain, or the format has no field
    for a chain.

    `repeats` is the number of earlier handoffs of the trace with the same source, target and data hash.
    `repeats_received` is the same number for the handoff that this source received last. `unknown` holds the handoffs
    that this handoff names (its parent, the handoff it retries) and that have not arrived.
    """

    derived: tuple[str, ...] | None = None
    derived_full: tuple[str, ...] | None = None
    derived_complete: bool = True
    repeats: int = 0
    unknown: tuple[str, ...] = ()
    repeats_received: int = 0
    returns: int = 0


class Findings(msgspec.Struct):
    """The results of the layers, for the verdict and for the layers that run later.

    `notes` maps the name of a layer to a text, such as the values that the layer did not check.
    `models` and `prompts` map the name of a layer to the LLM that was asked, and to the prompt. `unverified` is True if
    the LLM could not be asked, or gave no usable answer. `issues` holds the issues found so far.
    """

    token_counts: TokenCounts | None = None
    chain: ChainFacts | None = None
    claims: tuple[Claim, ...] = ()
    notes: dict[str, str] = msgspec.field(default_factory=dict)
    issues: list[Issue] = msgspec.field(default_factory=list)
    models: dict[str, str] = msgspec.field(default_factory=dict)
    prompts: dict[str, str] = msgspec.field(default_factory=dict)
    critique: Critique | None = None
    unverified: bool = False


class Subject(msgspec.Struct):
    """One handoff under validation.

    `files` is None if the sender's files cannot be seen. `remediation` is the record of the earlier attempts, None for
    the first attempt. `known_agents` is None if there is no agent registry. `model` is None if the LLM is asked in a
    later run. `sent` is the document as it arrived, None for a document that never arrived, such as a repair candidate.
    `trace_evidence` holds the results of tools that the host captured in the trace before the handoff, and the data
    from declared observers and people. `reported` holds the keys (`grounding.reported`) of the values that earlier
    handoffs of the trace reported. `source_role` is None if the role must be guessed from this handoff alone.
    """

    record: Record
    policy: TypePolicy
    history: History
    received_at: datetime
    counter: TokenCounter
    files: FileView | None = None
    policy_version: int = 0
    policy_versions: Mapping[str, int] = msgspec.field(default_factory=dict)
    demands: Requirements = msgspec.field(default_factory=Requirements)
    remediation: RemediationLog | None = None
    known_agents: frozenset[str] | None = None
    model: LanguageModel | None = None
    findings: Findings = msgspec.field(default_factory=Findings)
    sent: bytes | None = None
    trace_evidence: tuple[Source, ...] = ()
    reported: Collection[str] = ()
    source_role: SourceRole | None = None

    @property
    def role(self) -> SourceRole:
        """Return the role of the source, which is guessed from this handoff alone if it was not given."""
        if self.source_role is None:
            self.source_role = guess_role(self.record).role
        return self.source_role


class CouldNotRunError(Exception):
    """An error raised by a layer that cannot run because of an external problem. The sender sees its text."""


class NotCheckedError(Exception):
    """An error raised by a layer that cannot make its check.

    For example, the sender's files cannot be seen, the source is guessed to be an observer, or no LLM key is set. The
    layer counts as skipped, with the text of the error as the reason. Issues that the layer found earlier are kept.
    """


class AskedLater(Exception):
    """A signal raised by a layer whose LLM is asked in a later run. The layer reports nothing until then."""


class Layer(Protocol):
    """One step of validation: a module of this package, or an object with the same names.

    No content of a handoff makes `check` fail. `check` raises `CouldNotRunError` if an external dependency fails,
    `NotCheckedError` if the check cannot be made, and `AskedLater` if the LLM is asked in a later run.
    """

    @property
    def name(self) -> str: ...

    def skip(self, subject: Subject) -> str | None:
        """Return why the layer does not run for this handoff, or None if the layer runs."""
        ...

    def check(self, subject: Subject) -> Iterable[Issue]:
        """Return the issues found."""
        ...
