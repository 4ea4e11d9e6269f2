"""The template filter for texts of the OpenAPI description."""

from django.template import Library
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = Library()


@register.filter
def ticked(text: str) -> SafeString:
    """Return the text with backticked parts as code: `{{ call.about|ticked }}`."""
    return format_html_join("", "{}", ((_part(number, part),) for number, part in enumerate(text.split("`"))))


def _part(number: int, part: str) -> SafeString | str:
    return format_html("<code>{}</code>", part) if number % 2 else part
