"""The tokens layer: the token budget of the document, and its declared token count."""

from collections.abc import Iterable, Mapping
from typing import Final

from handoffaudit.validation.formats import BY_NAME
from handoffaudit.validation.formats.base import Section, declared_token_count
from handoffaudit.validation.issues import Code, Issue, Severity, make
from handoffaudit.validation.json_text import compact
from handoffaudit.validation.layers.base import Subject
from handoffaudit.validation.tokenizers import (
    CHARACTERS_PER_TOKEN,
    ESTIMATE_FORMULA,
    ESTIMATED_TEXT,
    TokenCounter,
    estimate,
)
from handoffaudit.validation.verdict import SectionCount, TokenCounts

name: Final = "tokens"

OVER_BUDGET: Final = Code(
    "tokens.over_budget",
    Severity.ERROR,
    "Over the token budget",
    what="The compact JSON of the document has more tokens than the budget of its type.",
    why="Every later agent pays for each token, and important content gets lost among too many tokens.",
    hint="Shorten the largest sections, or refer to files instead of including them.",
)
COUNT_DRIFT: Final = Code(
    "tokens.count_drift",
    Severity.WARNING,
    "Declared token count is wrong",
    what=f"The declared count differs by more than 30 % from two estimates ({ESTIMATE_FORMULA}): the estimate for the "
    "document as sent, and the estimate for its compact JSON.",
    why="A receiver that plans its context by the declared count exceeds its limit, or drops content needlessly.",
    hint="Recount after the last change of the document: divide the characters of its compact JSON by "
    f"{CHARACTERS_PER_TOKEN}.",
)
ESTIMATED: Final = Code(
    "tokens.estimated",
    Severity.INFO,
    "Tokens estimated",
    what=f"No tokenizer was available, so tokens were estimated as {ESTIMATE_FORMULA}.",
    why="An estimate may be off by a third, so handoffs near their budget may be accepted or rejected wrongly.",
    hint="The sender cannot fix this. An operator should install the tokenizer (splintr-rs).",
)
CODES: Final = (OVER_BUDGET, COUNT_DRIFT, ESTIMATED)

MAX_DRIFT = 0.3
_NAMED_SECTIONS = 3


def skip(subject: Subject) -> str | None:
    return None


def check(subject: Subject) -> Iterable[Issue]:
    document, counter = subject.record.document, subject.counter
    form = BY_NAME[subject.record.format]
    text = _text(document)
    total = counter.count(text)
    counts = TokenCounts(
        total=total,
        budget=subject.policy.budget_of(subject.record.format),
        declared=declared_token_count(form, document),
        tokenizer=counter.name,
        estimated=counter.estimated,
        sections=_section_counts(form.sections(document), total, counter),
    )
    subject.findings.token_counts = counts
    if counter.estimated:
        yield make(ESTIMATED, message=ESTIMATED_TEXT, tokenizer=counter.name)
    if total > counts.budget:
        yield _over_budget(counts)
    if counts.declared is not None:
        yield from _drift(counts.declared, estimate(text), subject.sent, form.places.token_count or ())


def _is_near(declared: int, estimated: float) -> bool:
    return abs(declared - estimated) <= MAX_DRIFT * estimated


def _text(value: object) -> str:
    return compact(value).decode("utf-8", "replace")


def _section_counts(sections: Mapping[str, Section], total: int, counter: TokenCounter) -> tuple[SectionCount, ...]:
    """Return the token count of each section.

    The longest section gets the tokens that the other sections leave of `total`. So the counts add up, and the longest
    text is not tokenized a second time.
    """
    texts = {title: _text(section.value) for title, section in sections.items()}
    longest = max(texts, key=lambda title: len(texts[title]), default=None)
    counted = {title: counter.count(text) for title, text in texts.items() if title != longest}
    if longest is not None:
        counted[longest] = max(total - sum(counted.values()), 0)
    return tuple(SectionCount(title, counted[title], section.target) for title, section in sections.items())


def _over_budget(counts: TokenCounts) -> Issue:
    over = counts.total - counts.budget
    largest = sorted(counts.sections, key=lambda section: -section.count)[:_NAMED_SECTIONS]
    named = ", ".join(_describe_section(section) for section in largest if section.count)
    about = "an estimated " if counts.estimated else ""
    return make(
        OVER_BUDGET,
        message=f"The handoff is {about}{counts.total:,} tokens, {over:,} over its budget of {counts.budget:,}.",
        hint=f"Remove {over:,} tokens. The largest sections: {named}. "
        "Shorten them, or store them as files and refer to the files.",
        expected=counts.budget,
        actual=counts.total,
        over=over,
        tokenizer=counts.tokenizer,
        largest={section.name: section.count for section in largest},
    )


def _describe_section(section: SectionCount) -> str:
    target = f" (target {section.target:,})" if section.target is not None else ""
    return f"{section.name} {section.count:,}{target}"


def _drift(declared: int, estimated: float, sent: bytes | None, location: tuple[str | int, ...]) -> Iterable[Issue]:
    """Yield a finding if the declared count is far from the estimate of the compact document.

    A sender may count its file with the indentation, so a count near the estimate of the document as sent passes, too.
    """
    drift = abs(declared - estimated) / estimated
    if drift <= MAX_DRIFT or (sent and _is_near(declared, estimate(sent.decode("utf-8", "replace")))):
        return
    rounded = round(estimated)
    off = f"{100 * drift:.0f} % {'above' if declared > estimated else 'below'}"
    yield make(
        COUNT_DRIFT,
        location=location,
        message=f"The declared token count, {declared:,}, is {off} the estimate of {rounded:,} ({ESTIMATE_FORMULA}).",
        hint=f"Declare {rounded:,}, and recount after every change of the document.",
        expected=rounded,
        actual=declared,
        drift=round(drift, 3),
    )
