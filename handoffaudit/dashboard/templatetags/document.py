"""How a document's tree is written in a template."""

from django.template import Library

from handoffaudit.dashboard.document import steps

register = Library()
register.filter("steps", steps)
