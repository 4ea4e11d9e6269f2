"""The findings of a verdict and the places in the document that they point to."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from handoffaudit.dashboard.safe_text import as_json, cut, weight
from handoffaudit.diagnostics.group_members import group_among, groups_by_key
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.catalogue import entry_of
from handoffaudit.validation.text import clean

# These rule codes expect a type or a format, not a value.
_IN_WORDS = frozenset({"structure.bad_format", "structure.empty", "structure.wrong_type", "schema.type"})

# These rule codes expect a limit, not an exact value.
_LIMITS = {
    "chain.needs_approval": "at most",
    "chain.over_recommended": "at most",
    "tokens.over_budget": "at most",
    "structure.too_long": "at most",
    "evidence.uncited_threshold_exceeded": "at most",
    "confidence.low": "at least",
    "critique.low_score": "at least",
    "semantic.objective_not_met": "at least",
}

_VALUE = 160

_SENTENCE = 400

_MOST = 30

_MOST_WEIGHT = 16_000

_LONGEST_ANCHOR = 300


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding as the page shows it.

    `is_placed` is true if the finding is about the document that the page shows. `place` is the full path,
    where `field_path` may be cut.
    """

    issue_id: str
    layer: str
    severity: str
    code: str
    title: str
    message: str
    hint: str
    field_path: str
    pointer: str
    expected: str
    actual: str
    metadata: Mapping[str, Any]
    is_placed: bool = True
    place: str = ""

    @property
    def anchor(self) -> str:
        return anchor(self.pointer) if self.is_placed else ""

    @property
    def spoken(self) -> str:
        """Return a spoken label for a link to the finding: `issue 1, Circular chain at call_chain`."""
        return f"{self.issue_id.replace('-', ' ')}, {self.title} at {self.field_path or 'the whole document'}"

    @property
    def quote(self) -> str:
        """Return the words of the document that an LLM doubts; an empty string if the LLM quoted nothing."""
        quoted = self.metadata.get("quote")
        return cut(quoted, _SENTENCE) if isinstance(quoted, str) else ""

    @property
    def decides(self) -> bool:
        """Return whether the finding makes a handoff rejected or held."""
        return self.severity in ("error", "critical") or entry_of(self.code).holds


def findings_of(content: Mapping[str, Any] | None) -> list[Finding]:
    """Return the findings of a verdict, deciding findings first."""
    if content is None:
        return []
    found = [_finding(issue) for issue in content["issues"]]
    return sorted(found, key=lambda issue: (not issue.decides, issue.severity == "info"))


def _finding(issue: Mapping[str, Any]) -> Finding:
    code = issue["code"]
    return Finding(
        issue_id=issue["issue_id"],
        layer=issue["layer"],
        severity=issue["severity"],
        code=code,
        title=entry_of(code).title,
        message=cut(issue["message"], _SENTENCE),
        hint=cut(issue["hint"] or "", _SENTENCE),
        field_path=cut(issue["field_path"], _VALUE),
        pointer=issue["json_pointer"],
        expected=_expected(issue["expected"], code),
        actual="" if issue["actual"] is None else cut(as_json(issue["actual"]), _VALUE),
        metadata=issue["metadata"],
        place=issue["field_path"],
    )


def _expected(value: Any, code: str) -> str:
    """Return the expected value on one line; an empty string if the finding expects nothing.

    Texts stand in quotes unless they are the product's own words, and a limit is written as a limit.
    """
    in_words = code in _IN_WORDS
    match value:
        case None:
            return ""
        case int() | float() if code in _LIMITS:
            return f"{_LIMITS[code]} {as_json(value)}"
        case [*options] if options and all(isinstance(option, str) for option in options):
            return cut(", ".join(options if in_words else map(as_json, options)), _VALUE)
        case dict() if value and not any(isinstance(part, dict | list) for part in value.values()):
            return cut(", ".join(f"{name} {as_json(part)}" for name, part in value.items()), _VALUE)
        case _:
            return cut(value if in_words and isinstance(value, str) else as_json(value), _VALUE)


def batch(found: Sequence[Finding], start: int) -> list[Finding]:
    """Return as many findings from `start` on as one page shows, but at least one if there is one."""
    shown: list[Finding] = []
    heavy = 0
    for issue in found[start : start + _MOST]:
        heavy += sum(map(weight, (issue.message, issue.hint, issue.field_path, issue.expected, issue.actual)))
        if shown and heavy > _MOST_WEIGHT:
            break
        shown.append(issue)
    return shown


def anchor(pointer: str) -> str:
    """Return the id of the element that shows a place, escaped for use in the fragment of an address."""
    quoted = quote(pointer, safe="/")
    return f"at-{quoted}" if len(quoted) <= _LONGEST_ANCHOR else ""


@dataclass(slots=True)
class Spot:
    """A place in the document that has findings, that has findings below, or that the address asks for.

    `leads` is true on the way to the place that the address asks for.
    """

    issues: list[Finding] = field(default_factory=list)
    below: "dict[str, Spot]" = field(default_factory=dict)
    is_wanted: bool = False
    leads: bool = False

    def every(self) -> Iterator[Finding]:
        yield from self.issues
        for spot in self.below.values():
            yield from spot.every()


def spots_of(issues: Iterable[Finding], wanted: str = "") -> Spot:
    """Return the places of the findings and the place that the JSON Pointer `wanted` names, with the ways to them."""
    root = Spot()
    if wanted:
        _want(root, parts_of(wanted))
    for issue in issues:
        if not issue.is_placed:
            continue
        spot = root
        for part in parts_of(issue.pointer):
            spot = spot.below.setdefault(part, Spot())
        spot.issues.append(issue)
    return root


def _want(spot: Spot, parts: Sequence[str]) -> None:
    for part in parts:
        spot.leads = True
        # The keys of a verdict are cleaned, too, and the keys of the document are compared in that form.
        spot = spot.below.setdefault(clean(part), Spot())
    spot.is_wanted = True


def parts_of(pointer: str) -> list[str]:
    """Return the keys of a JSON Pointer (RFC 6901)."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


@dataclass(frozen=True, slots=True)
class Listed:
    """A finding, and the finding group that contains it; None if the finding is in no group yet."""

    issue: Finding
    alike: FindingGroup | None


@dataclass(frozen=True, slots=True)
class IssueGroup:
    """Findings of the same weight; `number` also counts the findings of the verdict on other pages of the list."""

    name: str
    title: str
    number: int
    issues: Sequence[Listed]


TITLES = {"decides": "What decides", "warning": "Warnings", "info": "Notes"}


def group_findings(handoff: Handoff, shown: Sequence[Finding], every: Sequence[Finding]) -> list[IssueGroup]:
    """Return the shown findings by weight; `every` holds all findings of the verdict, for the counts."""
    alike = groups_by_key(handoff) if shown else {}
    listed = [Listed(issue, group_among(alike, handoff, issue.code, issue.place)) for issue in shown]
    return [
        IssueGroup(name, title, sum(_group(issue) == name for issue in every), issues)
        for name, title in TITLES.items()
        if (issues := [one for one in listed if _group(one.issue) == name])
    ]


def _group(issue: Finding) -> str:
    return "decides" if issue.decides else "info" if issue.severity == "info" else "warning"
