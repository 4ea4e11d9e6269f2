"""Tests of the words of pages: terms that the glossary replaced do not come back."""

import re
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(TEMPLATES[0].parents[0])))
def test_a_page_uses_the_words_of_the_glossary(path: Path) -> None:
    plain = TAG.sub(" ", COMMENT.sub(" ", path.read_text()))
    text = " ".join(ADDRESS.sub(" ", plain).split()).lower()
    found = {term: word for term, word in REPLACED.items() if re.search(rf"\b{re.escape(term)}\b", text)}
    assert found == {}
