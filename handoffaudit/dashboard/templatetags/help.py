"""Texts of the API's description on its pages."""

from django.template import Library
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = Library()


@register.filter
def ticked(text: str) -> SafeString:
    """`{{ call.about|ticked }}`: what stands between backticks as code."""
    return format_html_join("", "{}", ((_part(number, part),) for number, part in enumerate(text.split("`"))))


def _part(number: int, part: str) -> SafeString | str:
    return format_html("<code>{}</code>", part) if number % 2 else part
