"""Tests of the words of pages: terms that the glossary replaced do not come back."""

import re
from pathlib import Path

TEMPLATES = sorted((Path(__file__).parents[2] / "templates").rglob("*.html"))
# Each term with the word for it.
REPLACED = {
    "busiest agents": "top agents",
    "passed on to you": "assigned to you",
    "caused or passed on": "introduced or inherited",
    "nobody hands to": "no incoming handoffs",
    "never hand on": "no outgoing handoffs",
    "what would have happened": "dry run",
    "would be otherwise": "would change",
    "against the time before": "vs previous period",
    "trial": "dry run",
    "try it first": "start dry run",
    "an issue": "a finding",
    "opens with": "default view",
    "model health": "LLM",
    "declared edges": "declared routes",
    "noise": "overturned",
    "noisy rule codes": "overturned rule codes",
    "is noisy": "is overturned",
    "handed on": "sent",
    "hands to": "sends to",
    "that carry one": "that inherit one",
    "values came in": "values were introduced",
    "gets from": "receives from",
    "let through": "accepted",
    "make a key": "create a key",
    "nobody is told": "no webhooks",
    "what waits": "needs attention",
    "not checked by a model": "LLM check skipped",
    "the first like it": "first occurrence",
    "handoffs like it": "similar handoffs",
    "as shipped": "default",
    "under way included": "including the current one",
    "open so": "set as my default",
    "opens for you": "default view",
    "hears of": "events",
    "stand here": "is listed here",
    "would stand": "are listed",
    "looked through": "no match so far",
    "remove one of them": "remove a filter",
    "as it likes": "any data",
    "leave it": "cancel",
    "none is chosen": "no handoffs selected",
    "on its way": "loading",
    "have come yet": "no handoffs yet",
    "let only the file count": "require handoff file",
    "demands nothing": "checks nothing",
    "table calculator": "spreadsheet",
    "asked of all": "used for all",
    "may be left out": "optional",
    "is one running": "check that a worker is running",
}
COMMENT = re.compile(r"\{% comment %\}.*?\{% endcomment %\}", re.DOTALL)
TAG = re.compile(r"\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
ADDRESS = re.compile(r"(?:href|id|class|src|action|hx-\w+)=\"[^\"]*\"")


def test_pages_use_the_words_of_the_glossary() -> None:
    replaced = re.compile(rf"\b({'|'.join(map(re.escape, REPLACED))})\b")
    assert len(TEMPLATES) > 100
    found = [(path.name, term, REPLACED[term]) for path in TEMPLATES for term in replaced.findall(_words_of(path))]
    assert found == []


def _words_of(path: Path) -> str:
    plain = TAG.sub(" ", COMMENT.sub(" ", path.read_text()))
    return " ".join(ADDRESS.sub(" ", plain).split()).lower()
