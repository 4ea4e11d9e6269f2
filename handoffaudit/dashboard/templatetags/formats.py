"""Template filters and tags that format values: documents and texts of senders, shares, durations and costs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from django.template import Library
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from handoffaudit.dashboard.handoffs.document_tree import steps
from handoffaudit.dashboard.handoffs.verdict_findings import fold
from handoffaudit.dashboard.safe_text import add_breaks, as_json, cut
from handoffaudit.dashboard.safe_text import readable as shown_readable
from handoffaudit.diagnostics.file_stats import FileTally
from handoffaudit.filter_fields import quote_blanks
from handoffaudit.handoffs.rates import ACCEPTANCE_RATE, BLOCK_RATE, Share, ShareChange
from handoffaudit.validation.issues import is_counted
from handoffaudit.validation.text import pluralize

register = Library()
_NONE = '<span class="none">\u2013</span>'
register.filter("steps", steps)
register.filter("fold", fold)
register.filter("quote_blanks", quote_blanks)


@register.filter
def readable(text: str) -> str:
    """Return the text with control and direction characters made visible."""
    return shown_readable(text)


@register.filter
def as_value(value: Any) -> str:
    """Return a JSON value cut to 300 characters; a text stays without quotes."""
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 300)


@register.filter
def in_json(value: Any) -> str:
    """Return a JSON value cut to 300 characters; a text is quoted."""
    return cut(as_json(value), 300)


@register.filter
def duration(milliseconds: float) -> str:
    """Format a duration in milliseconds as `0.12 ms` or `13.0 s`."""
    return f"{milliseconds:.2f} ms" if round(milliseconds, 2) < 1000 else f"{milliseconds / 1000:.1f} s"


@register.filter
def describe_result(layer: Mapping[str, Any], issues: Sequence[Mapping[str, Any]]) -> str:
    """Return the result of a layer in a word: its status, or `holds` where the layer holds and does not reject."""
    found = [issue["severity"] for issue in issues if issue["layer"] == layer["name"]]
    holds = layer["status"] == "failed" and "error" not in found and "critical" not in found
    return "holds" if holds else str(layer["status"])


@register.filter
def describe_warnings(issues: Sequence[Mapping[str, Any]], layer: str) -> str:
    """Return how many kinds of warnings a layer that passed has found, such as `2 warnings`, or an empty string."""
    kinds = {issue["code"] for issue in issues if issue["layer"] == layer and is_counted(issue["severity"])}
    return pluralize(len(kinds), "warning") if kinds else ""


@register.filter
def render_code(text: str) -> SafeString:
    """Return the text with backticked parts as code: `{{ call.about|render_code }}`."""
    return format_html_join("", "{}", ((_part(number, part),) for number, part in enumerate(text.split("`"))))


def _part(number: int, part: str) -> SafeString | str:
    return format_html("<code>{}</code>", part) if number % 2 else part


@register.filter
def words(reason: str) -> str:
    """Return a reason as a heading: `Breaker open`."""
    return reason.replace("_", " ").capitalize()


# A share below the first percentage has a bad tone, and a share below the second a warning tone.
_BAD, _WAIT = 80.0, 95.0


@register.filter
def percent(share: Share) -> str:
    """Format a share as `99.5 %`, or `n/a` if its total is 0."""
    found = share.percent
    return "n/a" if found is None else f"{found:.1f} %"


def whole_percent(share: Share) -> str:
    """Format a share as `99 %` for narrow places; `100 %` only for all, and `0 %` only for none."""
    if 0 < share.part < share.total:
        return f"{min(max(round(100 * share.value), 1), 99)} %"
    return f"{share.percent or 0:.0f} %"


@register.filter
def commas(number: int) -> str:
    """Format a number as `intcomma` does. In tables with many rows, `intcomma` itself would be slow."""
    return f"{number:,}"


@register.filter
def signed(number: int) -> str:
    """Format a difference with its sign, such as `+1,200`."""
    return f"{'+' if number > 0 else chr(0x2212)}{abs(number):,}"


@register.filter
def format_share(share: Share) -> str:
    """Format a share with its numbers as `1,199/1,200 (99.9 %)` or `0/0 (n/a)`."""
    return f"{share.part:,}/{share.total:,} ({percent(share)})"


@register.filter
def tone(share: Share) -> str:
    """Return the tone of a share for which more is better."""
    percentage = share.percent
    if percentage is None:
        return "quiet"
    return "bad" if percentage < _BAD else "wait" if percentage < _WAIT else "good"


@register.simple_tag
@lru_cache(maxsize=2048)
def tally_cells(tally: FileTally) -> SafeString:
    """Render the cells of a tally of handoff files: `{% tally_cells line.tally %}`.

    The results are cached, because a page has hundreds of tallies.
    """
    reasons = (percent(share) if share.part else "" for share in tally.file_reason_shares.values())
    cells = (format_share(tally.share), *reasons, f"{tally.fallback_ok:,}" if tally.fallback_ok else "")
    # The cells contain only numbers.
    return SafeString("".join(f'<td class="end">{cell or _NONE}</td>' for cell in cells))


@register.simple_tag
def table_rows(rows: Iterable[Sequence[str]], names: int = 1) -> SafeString:
    """Render rows whose cells after the first `names` are numbers: `{% table_rows chart.rows %}`.

    A template would be slow, because a page has hundreds of cells.
    """
    written = []
    for first, *rest in rows:
        kinds = ("" if place < names else ' class="end"' for place in range(1, len(rest) + 1))
        cells = "".join(
            f"<td{kind}>{escape(shown_readable(cell))}</td>" for kind, cell in zip(kinds, rest, strict=True)
        )
        written.append(f'<tr><th scope="row">{escape(shown_readable(first))}</th>{cells}</tr>')
    return mark_safe("".join(written))  # noqa: S308 -- each cell is escaped


@register.simple_tag
def named(name: str, link: str) -> SafeString:
    """Return the name that a sender gave, as a link if there is one: `{% named agent.name agent.link %}`."""
    text = mark_safe(add_breaks(escape(shown_readable(name) or "(no name)")))  # noqa: S308 -- the name is escaped
    return format_html('<a href="{}">{}</a>', link, text) if link else text


@register.simple_tag
def rate_definition(name: str) -> str:
    """Return the definition of the rate `acceptance` or `block`, for the line under its number."""
    return {"acceptance": ACCEPTANCE_RATE, "block": BLOCK_RATE}[name]


@register.simple_tag
def describe_change(change: ShareChange, direction: str = "") -> SafeString:
    """Return the change in words, such as `better by 12.5 points`, with the earlier share as its title.

    `direction` replaces the direction of the change where less is better. If a period has nothing to compare, the
    result is empty.
    """
    how, before = direction or change.direction, format_share(change.before)
    if how == "none":
        return SafeString("")
    points = abs(change.points or 0.0)
    text = "as before" if how == "same" else f"{how} by {points:.1f} {'point' if points == 1 else 'points'}"
    sign = {"better": "▲ ", "worse": "▼ "}.get(how, "")
    few = ", too few to be sure" if change.few else ""
    return format_html(
        '<span class="change change--{}" title="Before: {}{}"><span aria-hidden="true">{}</span>{}{}</span>',
        how,
        before,
        few,
        sign,
        text,
        few,
    )


@register.filter
def latency(milliseconds: float | str | None) -> str:
    """Format a duration in milliseconds as `820 ms`, `1.4 s` or `62 s`; a dash for None or an empty string."""
    if not isinstance(milliseconds, int | float):
        return "\u2013"
    if round(milliseconds) < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.1f} s" if round(seconds, 1) < 10 else f"{seconds:.0f} s"


@register.filter
def usd(amount: float) -> str:
    """Format US dollars with two decimals, or with four for less than a cent."""
    return f"{amount:,.4f}" if 0 < amount < 0.01 else f"{amount:,.2f}"


@register.filter
def span(seconds: float | None) -> str:
    """Format a span as `0.2 s`, `4 min 10 s`, `3 h 5 min` or `2 d 4 h`; a dash where the span is unknown."""
    if seconds is None:
        return "\u2013"
    tenths = round(max(seconds, 0), 1)
    if tenths < 60:
        return f"{tenths:.1f} s"
    whole = int(tenths)
    for size, unit, rest, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            left = whole % size // rest
            return f"{whole // size:,} {unit}" + (f" {left} {small}" if left else "")
    return f"{whole} s"
