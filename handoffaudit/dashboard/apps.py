"""The application of the pages, and its template engine."""

import re
from typing import Any

from django.apps import AppConfig
from django.http import HttpRequest
from django.template import Origin, TemplateDoesNotExist
from django.template.backends.django import DjangoTemplates, Template, reraise
from django.template.context import make_context
from django.template.loaders.filesystem import Loader
from django.utils.safestring import SafeString

# The first alternative matches elements in which white space is visible.
_INDENTATION = re.compile(r"(<(pre|textarea)\b.*?</\2>)|(?<=\n) +", re.DOTALL)


class DashboardConfig(AppConfig):
    name = "handoffaudit.dashboard"
    label = "dashboard"

    def ready(self) -> None:
        from handoffaudit import checks  # noqa: F401, PLC0415 -- registers the system checks


class UnindentedLoader(Loader):
    """Load templates without their indentation, which is up to a third of a page."""

    def get_contents(self, origin: Origin) -> str:
        return _INDENTATION.sub(r"\1", super().get_contents(origin))


class _Template(Template):
    def render(self, context: dict[str, Any] | None = None, request: HttpRequest | None = None) -> SafeString:
        """Render the template, and release its context."""
        made = make_context(context, request, autoescape=self.backend.engine.autoescape)
        try:
            return self.template.render(made)
        except TemplateDoesNotExist as error:
            reraise(error, self.backend)
        finally:
            # The context and its values refer to each other. Without this line, only the garbage collector would free
            # the data of a page, and one page in seven would wait 25 ms for that.
            made.dicts.clear()


class Templates(DjangoTemplates):
    """Django's template backend, which frees the context of a page as soon as the page is rendered."""

    def from_string(self, template_code: str) -> Template:
        return _Template(super().from_string(template_code).template, self)

    def get_template(self, template_name: str) -> Template:
        return _Template(super().get_template(template_name).template, self)
