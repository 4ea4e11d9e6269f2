"""How what concerns the model is written in a template."""

from django.template import Library

register = Library()


@register.filter
def duration(milliseconds: float | str | None) -> str:
    """`820 ms`, `1.4 s`, `62 s`; a dash for none, which a template may give as an empty text."""
    if not isinstance(milliseconds, int | float):
        return "\u2013"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


@register.filter
def usd(amount: float) -> str:
    """Two digits, and four where two would hide all of it."""
    return f"{amount:,.4f}" if 0 < amount < 0.01 else f"{amount:,.2f}"


@register.filter
def words(reason: str) -> str:
    """A reason as it reads in a heading: `Breaker open`."""
    return reason.replace("_", " ").capitalize()
