"""Template tags and filters for shares and their changes."""

from django.template import Library
from django.utils.html import format_html
from django.utils.safestring import SafeString

from handoffaudit.diagnostics.file_stats import Change
from handoffaudit.handoffs.rates import ACCEPTANCE_RATE, BLOCK_RATE, Share

register = Library()

# A share below the first percentage has a bad tone, and a share below the second a warning tone.
_BAD, _WAIT = 80.0, 95.0


@register.filter
def percent(share: Share) -> str:
    """Format a share as `99.5 %`, or `n/a` for a share of nothing."""
    return "n/a" if share.percent is None else f"{share.percent:.1f} %"


@register.filter
def format_share(share: Share) -> str:
    """Format a share with its numbers as `1,199/1,200 (99.9 %)` or `0/0 (n/a)`."""
    return f"{share.part:,}/{share.total:,} ({percent(share)})"


@register.filter
def tone(share: Share) -> str:
    """Return the tone of a share for which more is better."""
    if share.percent is None:
        return "quiet"
    return "bad" if share.percent < _BAD else "wait" if share.percent < _WAIT else "good"


@register.simple_tag
def rate_definition(name: str) -> str:
    """Return the definition of the rate `acceptance` or `block`, for the line under its number."""
    return {"acceptance": ACCEPTANCE_RATE, "block": BLOCK_RATE}[name]


@register.simple_tag
def describe_change(change: Change, direction: str = "") -> SafeString:
    """Return the change in words, such as `better by 12.5 points`, with the share before as its title.

    `direction` is given if less is better. The result is empty if there is nothing to compare.
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
