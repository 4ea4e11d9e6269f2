"""Template filters for calls to the LLM."""

from django.template import Library

register = Library()


@register.filter
def duration(milliseconds: float | str | None) -> str:
    """Format a duration in milliseconds as `820 ms`, `1.4 s` or `62 s`; a dash for None or an empty string."""
    if not isinstance(milliseconds, int | float):
        return "\u2013"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


@register.filter
def usd(amount: float) -> str:
    """Format US dollars with two decimals, or with four where two would show zero."""
    return f"{amount:,.4f}" if 0 < amount < 0.01 else f"{amount:,.2f}"


@register.filter
def words(reason: str) -> str:
    """Return a reason as a heading: `Breaker open`."""
    return reason.replace("_", " ").capitalize()
