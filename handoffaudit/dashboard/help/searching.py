"""One search over all help: codes, guides, calls of the API."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.urls import reverse

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.help import reference
from handoffaudit.dashboard.help.guides import GUIDES, LOOKED_UP, beginning, sections
from handoffaudit.validation.codes import CATALOGUE, FAMILIES
from handoffaudit.validation.explanations import explanation_of

MOST_FOUND = 40
LONGEST_QUERY = 100
_EXCERPT = 180


@dataclass(frozen=True, slots=True)
class Found:
    """`kind` is what it is, in a word; `text` is searched as well as the title, and shown cut."""

    kind: str
    title: str
    text: str
    href: str

    @property
    def excerpt(self) -> str:
        return self.text if len(self.text) <= _EXCERPT else self.text[:_EXCERPT].rpartition(" ")[0] + " …"


def search(tenant: Tenant, query: str) -> list[Found]:
    """What has every word of the query; what has them in its title first. At most `MOST_FOUND`."""
    words = query.casefold()[:LONGEST_QUERY].split()
    if not words:
        return []
    ranked = [(_rank(one, words), one) for one in _everything(tenant)]
    ranked.sort(key=lambda pair: pair[0])
    return [one for rank, one in ranked if rank < len(words) * 10][:MOST_FOUND]


def _rank(found: Found, words: Sequence[str]) -> int:
    """0: all in the title. A word that is nowhere puts it out."""
    title, text = found.title.casefold(), found.text.casefold()
    return sum(0 if word in title else 1 if word in text else len(words) * 10 for word in words)


def _everything(tenant: Tenant) -> Iterator[Found]:
    for entry in (*CATALOGUE.values(), *FAMILIES.values()):
        explained = explanation_of(entry.code)
        text = f"{entry.what} {explained.why if explained else ''} {entry.hint}"
        href = reverse("dashboard:code", args=[tenant.slug, entry.code])
        yield Found("code", f"{entry.title} {entry.code}", text, href)
    for guide in (*GUIDES, *LOOKED_UP):
        href = reverse("dashboard:help_guide", args=[tenant.slug, guide.name])
        yield Found("guide", guide.title, f"{guide.about} {beginning(guide.name)}", href)
        for section in sections(guide.name):
            yield Found("guide", f"{section.heading} ({guide.title})", section.text, f"{href}#{section.anchor}")
    for call in reference.operations():
        href = reverse("dashboard:help_call", args=[tenant.slug, call.name])
        yield Found("API", f"{call.method} {call.path}", f"{call.summary}. {call.about}", href)
