"""Does the document keep to its format?"""

from collections.abc import Iterable
from typing import Final

from handoffaudit.validation.bounding import bounded
from handoffaudit.validation.formats import BY_NAME
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.layers.base import Subject

name: Final = "structure"


def skip(subject: Subject) -> str | None:
    return None


def check(subject: Subject) -> Iterable[Issue]:
    return bounded(BY_NAME[subject.record.format].check(subject.record))
