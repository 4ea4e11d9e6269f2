import re

from django.apps import AppConfig
from django.template import Origin
from django.template.loaders.filesystem import Loader

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
