"""The summary of an evidence bundle for people: one HTML file without scripts or other files, fit for printing."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from handoffaudit.drawing.svg import escape_text
from handoffaudit.handoffs.transitions import DECIDED, REVIEWABLE
from handoffaudit.trust.bundle_check import describe_left_out

MOST_LISTED: Final = 200
MOST_FINDINGS: Final = 20
LONGEST_CELL: Final = 2000
_TIME: Final = re.compile(r"\b(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\.\d{6}\+00:00")

_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#16191d}"
    "table{border-collapse:collapse;width:100%;margin:.5rem 0 1.5rem}"
    "th,td{border:1px solid #c9ced6;padding:.3rem .5rem;"
    "text-align:left;vertical-align:top;overflow-wrap:anywhere}th{background:#f2f4f7}h2{margin-top:2rem}"
    "@media (min-width:40rem){th{white-space:nowrap}td:nth-child(n+2):not(:last-child){min-width:8rem}}"
    "section{break-inside:avoid}code{overflow-wrap:anywhere}@media print{body{margin:0;max-width:none}}"
)


@dataclass(slots=True)
class Summary:
    """The events and verdicts of a bundle by handoff, its policy versions, and the number of decisions.

    Approvals, declines and reopenings by people and API keys count as decisions. `verdicts` covers only the first
    `MOST_LISTED` handoffs that have verdicts.
    """

    events: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    verdicts: dict[str, list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = field(default_factory=dict)
    policies: list[Mapping[str, Any]] = field(default_factory=list)
    decisions: int = 0

    def add_event(self, facts: Mapping[str, Any]) -> None:
        self.events.setdefault(facts["handoff_id"], []).append(facts)
        before, after = facts["from_state"], facts["to_state"]
        decides = before != after and (after in DECIDED or (before in DECIDED and after in REVIEWABLE))
        self.decisions += decides and facts["actor_kind"] != "system"

    def add_verdict(self, facts: Mapping[str, Any], content: Mapping[str, Any]) -> None:
        if len(self.verdicts) < MOST_LISTED or facts["handoff_id"] in self.verdicts:
            found = [
                {name: one.get(name) for name in ("severity", "code", "field_path", "message")}
                for one in content.get("issues", ())
            ]
            shown = {"issues": found, "policy_versions": content.get("policy_versions", {})}
            self.verdicts.setdefault(facts["handoff_id"], []).append((facts, shown))


def render(facts: Mapping[str, Any], handoffs: Sequence[Any], found: Summary) -> Iterator[bytes]:
    """Yield the parts of the HTML file. Every text that a sender or a person wrote is escaped."""
    subject = facts["subject"]
    title = _shorten_time(f"Evidence about {subject['kind']} {subject['name']}")
    yield (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{_escape(title)}</title>'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{_STYLE}</style></head><body><h1>{_escape(title)}</h1>"
    ).encode()
    yield _table(
        ("", ""),
        (
            ("Tenant", facts["tenant"]),
            ("Made at", facts["made_at"]),
            ("Made by", facts["made_by"]),
            ("Handoffs", f"{subject['handoffs']:,}"),
            ("Decisions of people and keys", f"{found.decisions:,}"),
            ("Signed with the key", f"{facts['public_key']} ({facts['key_id']})"),
        ),
    )
    yield (
        b"<p>This page summarizes the other files of the bundle. Check the bundle with <code>handoffaudit verify-bundle"
        b" FILE --key PUBLIC</code>, with a public key that you did not get from this bundle.</p>"
    )
    if left_out := describe_left_out(facts["left_out"]):
        yield b"<h2>Not in this bundle</h2><p>The bundle reached a bound, and leaves out:</p><ul>"
        yield "".join(f"<li>{_escape(one)}</li>" for one in left_out).encode() + b"</ul>"
    for handoff in handoffs[:MOST_LISTED]:
        yield from _handoff(handoff, found)
    yield from _more(len(handoffs) - MOST_LISTED, "handoffs", "the other files")
    if found.policies:
        yield b"<h2>Policy versions that the verdicts name</h2>"
        names = ("kind", "number", "changed_by", "changed_at", "note")
        yield _table(
            ("Kind", "Version", "Changed by", "Changed at", "Note"),
            ([one[name] for name in names] for one in found.policies[:MOST_LISTED]),
        )
        yield from _more(len(found.policies) - MOST_LISTED, "policy versions")
    yield b"</body></html>\n"


def _handoff(handoff: Any, found: Summary) -> Iterator[bytes]:
    pk = str(handoff.pk)
    named = handoff.source_agent_id or handoff.target_agent_id
    name = f"{handoff.source_agent_id} \u2192 {handoff.target_agent_id}" if named else "Handoff without agents"
    yield f"<section><h2>{_escape(name)}</h2>".encode()
    yield _table(
        ("", ""),
        (
            ("Handoff", pk),
            ("Sender's id", handoff.handoff_id),
            ("Type", handoff.handoff_type),
            ("Trace", handoff.trace_id),
            ("State", handoff.state),
            ("Attempt", handoff.attempt),
        ),
    )
    for facts, content in found.verdicts.get(pk, ()):
        policies = ", ".join(f"{kind} {number}" for kind, number in sorted(content["policy_versions"].items()))
        told = f"Verdict {facts['outcome']} at {facts['validated_at']}, under {policies or 'no policy'}"
        yield f"<h3>{_escape(_shorten_time(told))}</h3>".encode()
        issues = content["issues"]
        if issues:
            lines = ([one[name] for name in ("severity", "code", "field_path", "message")] for one in issues)
            yield _table(("Severity", "Rule code", "Place", "Finding"), list(lines)[:MOST_FINDINGS])
        yield from _more(len(issues) - MOST_FINDINGS, "findings")
    names = ("at", "actor_kind", "actor", "from_state", "to_state", "reason")
    events = found.events.get(pk, [])
    lines = ([one[name] for name in names] for one in events[:MOST_LISTED])
    yield b"<h3>What happened, by whom, and why</h3>"
    yield _table(("When", "Kind", "Who", "From", "To", "Why"), lines)
    yield from _more(len(events) - MOST_LISTED, "events")
    yield b"</section>"


def _more(number: int, what: str, where: str = "rows.jsonl") -> Iterator[bytes]:
    if number > 0:
        yield f"<p>{number:,} more {what} are in {where}.</p>".encode()


def _table(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> bytes:
    def row(cells: Sequence[Any], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{_escape(_text(cell))}</{tag}>" for cell in cells) + "</tr>"

    top = row(head, "th") if any(head) else ""
    return f"<table>{top}{''.join(row(line, 'td') for line in lines)}</table>".encode(errors="replace")


def _escape(text: str) -> str:
    """Return the text for HTML. Visible signs replace characters that hide or reorder text; line breaks stay."""
    return "\n".join(map(escape_text, text.splitlines()))


def _text(value: Any) -> str:
    text = "" if value is None else str(value)
    return _shorten_time(text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}\u2026 (shortened)")


def _shorten_time(text: str) -> str:
    """Return the text with its times in whole seconds."""
    return _TIME.sub(r"\1 \2 UTC", text)
