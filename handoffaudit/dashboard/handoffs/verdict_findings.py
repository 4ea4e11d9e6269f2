"""The findings of a verdict and the places in the document that they point to."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from handoffaudit.dashboard.safe_text import as_json, cut, weight
from handoffaudit.diagnostics.group_members import group_among, groups_by_key
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.issues import is_counted
from handoffaudit.validation.layers import entry_of
from handoffaudit.validation.text import clean

# These rule codes describe what they expect in words of the product, which are shown without quotes.
_IN_WORDS = frozenset({"structure.bad_format", "structure.empty", "structure.wrong_type", "schema.type"})

# These rule codes expect a limit, which is shown with its direction.
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

_MOST = 100

_MOST_WEIGHT = 16_000

_MOST_VALUES = 20

_LISTED_VALUE = 80

_FIRST_VALUES = 5

_FIRST_PLACES = 3

Groups = Mapping[str, FindingGroup]

_LONGEST_ANCHOR = 300


@dataclass(frozen=True, slots=True)
class Value:
    """A value that a finding is about, and the most similar value of the sources, if there is one."""

    text: str
    closest: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding as the page shows it.

    `is_placed` is true if the finding is about the document that the page shows. `field_path` may be cut; `place` is
    the full path. `values` are the first of the `number` values that the finding is about; a finding without values
    counts as one.
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
    values: tuple[Value, ...] = ()
    number: int = 1

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

    @property
    def is_counted(self) -> bool:
        return is_counted(self.severity)

    @property
    def more_values(self) -> int:
        """Return how many of the finding's values are not in `values`; meaningful only if the finding has values."""
        return max(0, self.number - len(self.values))


def findings_of(content: Mapping[str, Any] | None) -> list[Finding]:
    """Return the findings of a verdict: deciding findings first, notes last, and equal rule codes side by side."""
    if content is None:
        return []
    found = [_make_finding(issue) for issue in content["issues"]]
    first = {issue.code: at for at, issue in reversed(list(enumerate(found)))}
    return sorted(found, key=lambda issue: (not issue.decides, not issue.is_counted, first[issue.code], issue.severity))


def _make_finding(issue: Mapping[str, Any]) -> Finding:
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
        expected=_format_expected(issue["expected"], code),
        actual="" if issue["actual"] is None else cut(as_json(issue["actual"]), _VALUE),
        metadata=issue["metadata"],
        place=issue["field_path"],
        **_values_of(issue["metadata"]),
    )


def _values_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the different values in the metadata of a finding, and how many there are.

    If there are many values, a layer lists only some in `values`, and `count` is the number of all. Both count a value
    once for each place, but the message of the finding counts different values.
    """
    listed = metadata.get("values")
    if not isinstance(listed, list):
        return {}
    read = [
        Value(cut(one["text"], _LISTED_VALUE), cut(str(one.get("closest") or ""), _LISTED_VALUE))
        for one in listed[:_MOST_VALUES]
        if isinstance(one, dict) and isinstance(one.get("text"), str)
    ]
    different, count = tuple(dict.fromkeys(read)), metadata.get("count")
    number = count - (len(read) - len(different)) if isinstance(count, int) else 0
    return {"values": different, "number": max(1, len(different), number)}


def _format_expected(value: Any, code: str) -> str:
    """Return the expected value on one line; an empty string if the finding expects nothing.

    Texts stand in quotes unless they are the product's own words. A limit is shown with its direction: `at most 3`.
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
    """Return as many findings from `start` on as one page shows, but at least one if any is left."""
    shown: list[Finding] = []
    heavy = 0
    for issue in found[start : start + _MOST]:
        # The page shows the hint of equal findings once.
        hint = "" if shown and issue.hint == shown[-1].hint else issue.hint
        values = (text for one in issue.values for text in (one.text, one.closest))
        heavy += sum(map(weight, (issue.message, hint, issue.field_path, issue.expected, issue.actual, *values)))
        if shown and heavy > _MOST_WEIGHT:
            break
        shown.append(issue)
    return shown


def anchor(pointer: str) -> str:
    """Return the id of the element that shows a place, escaped for use in the fragment of an address.

    The id of a place with a very long path is empty.
    """
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
    """Return a tree of the places of the findings and of the place that the JSON Pointer `wanted` names."""
    root = Spot()
    if wanted:
        _want(root, parts_of(wanted))
    for issue in issues:
        # Notes are information, so they mark nothing.
        if not issue.is_placed or not issue.is_counted:
            continue
        spot = root
        for part in parts_of(issue.pointer):
            spot = spot.below.setdefault(part, Spot())
        spot.issues.append(issue)
    return root


def _want(spot: Spot, parts: Sequence[str]) -> None:
    for part in parts:
        spot.leads = True
        # The page cleans the keys of the document before it looks them up here. A verdict has cleaned keys already.
        spot = spot.below.setdefault(clean(part), Spot())
    spot.is_wanted = True


def parts_of(pointer: str) -> list[str]:
    """Return the keys of a JSON Pointer (RFC 6901)."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


@dataclass(frozen=True, slots=True)
class Listed:
    """A finding, and the finding group that contains it; None if the finding is in no group yet."""

    issue: Finding
    alike: FindingGroup | None = None


@dataclass(frozen=True, slots=True)
class FoldedFinding:
    """The findings of one verdict with the same rule code and severity, as one entry of a list.

    `listed` are the findings that the page shows, and `number` counts all such findings in the verdict. `values` and
    `places` are the first different values and places; `more_values` and `more_places` count the others. `hint` is the
    fix that all these findings share, or else the general fix of the rule code.
    """

    listed: Sequence[Listed]
    number: int
    values: Sequence[str]
    more_values: int
    places: Sequence[Finding]
    more_places: int
    hint: str

    @property
    def first(self) -> Finding:
        return self.listed[0].issue

    @property
    def is_single(self) -> bool:
        return self.number == 1

    @property
    def value_count(self) -> int:
        return len(self.values) + self.more_values

    @property
    def hidden(self) -> int:
        """Return how many of the findings are on other pages of the list."""
        return self.number - len(self.listed)

    @property
    def group(self) -> FindingGroup | None:
        """Return the finding group of the shown findings that has the most handoffs."""
        groups = [one.alike for one in self.listed if one.alike]
        return max(groups, key=lambda group: group.number, default=None)


def fold(shown: Sequence[Finding], every: Sequence[Finding] = (), alike: Groups | None = None) -> list[FoldedFinding]:
    """Return the shown findings by rule code and severity.

    `every` holds all findings of the verdict, for the numbers. `alike` are the finding groups of the handoff by key.
    """
    of_kind: dict[tuple[str, str], list[Finding]] = {}
    for issue in every or shown:
        of_kind.setdefault((issue.code, issue.severity), []).append(issue)
    listed: dict[tuple[str, str], list[Listed]] = {}
    for issue in shown:
        one = Listed(issue, group_among(alike or {}, issue.code, issue.place))
        listed.setdefault((issue.code, issue.severity), []).append(one)
    return [_fold_finding(some, of_kind[kind]) for kind, some in listed.items()]


def _fold_finding(listed: Sequence[Listed], every: Sequence[Finding]) -> FoldedFinding:
    values = list(dict.fromkeys(text for issue in every for text in _texts(issue)))
    # Several findings may have the same value, and a finding with many values lists only some of them.
    unlisted = sum(issue.more_values for issue in every if issue.values)
    places = list({issue.pointer: issue for issue in every if issue.field_path}.values())
    hints = {issue.hint for issue in every}
    return FoldedFinding(
        listed,
        number=len(every),
        values=values[:_FIRST_VALUES],
        more_values=len(values[_FIRST_VALUES:]) + unlisted,
        places=places[:_FIRST_PLACES],
        more_places=len(places[_FIRST_PLACES:]),
        hint=hints.pop() if len(hints) == 1 else entry_of(every[0].code).hint,
    )


def _texts(issue: Finding) -> list[str]:
    return [one.text for one in issue.values] or [issue.actual] * bool(issue.actual)


@dataclass(frozen=True, slots=True)
class IssueGroup:
    """The folded findings under one of `TITLES`; `number` counts these entries on all pages of the list."""

    name: str
    title: str
    number: int
    entries: Sequence[FoldedFinding]


TITLES = {"decides": "What decides", "warning": "Warnings", "info": "Notes"}


def group_findings(handoff: Handoff, shown: Sequence[Finding], every: Sequence[Finding]) -> list[IssueGroup]:
    """Return the shown findings, grouped by `TITLES`; `every` holds all findings of the verdict, for the counts."""
    entries = fold(shown, every, groups_by_key(handoff) if shown else None)
    by_weight = Counter(_group(one.first) for one in fold(every))
    return [
        IssueGroup(name, title, by_weight[name], some)
        for name, title in TITLES.items()
        if (some := [one for one in entries if _group(one.first) == name])
    ]


def _group(issue: Finding) -> str:
    return "decides" if issue.decides else "warning" if issue.is_counted else "info"
