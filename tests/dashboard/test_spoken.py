"""Tests of all addresses by the rules of `tests.spoken` for screen readers."""

import pytest

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.policy.kinds import rules
from handoffaudit.policy.rules import example_sets
from tests.access.test_pages import TABLE, Asking, Things, ask
from tests.browser.test_pages import PAGES
from tests.scale import NIGHTLY
from tests.spoken import flaws

SHOWN = [name for name, row in TABLE.items() if row.method == "GET" and row.status == 200]
# What is shown again, with what is wrong in it.
REFUSED = [name for name, row in TABLE.items() if row.method == "POST" and row.status in (200, 400, 409)]
WITH_QUERIES = sorted({shown.address for shown in PAGES.values() if isinstance(shown.address, str)})
PAGE = '<html lang="en"><main><h1>A</h1>{}</main></html>'


@pytest.fixture
def things(tenant: Tenant) -> Things:
    rules.save(tenant=tenant, base_version=0, rows=example_sets()[:1], actor="ada")
    return Things.of(tenant)


def test_each_page_is_understood_by_who_only_hears_it(things: Things, admin: Person) -> None:
    client = Asking()
    client.force_login(admin)
    answers = {name: ask(client, name, things.tenant, things) for name in SHOWN}
    answers |= {name: ask(client, name, things.tenant, things) for name in REFUSED}
    # With a query most pages show the parts that they also show without one.
    answers |= {
        address: client.get(f"/t/acme/{address}") for address in (WITH_QUERIES if NIGHTLY else WITH_QUERIES[::4])
    }
    pages = {name: answer.text for name, answer in answers.items() if not answer.streaming and "<html" in answer.text}
    assert len(pages) > len(SHOWN)
    assert [f"{name}: {flaw}" for name, page in pages.items() for flaw in flaws(page)] == []


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ("<h3>B</h3>", "a heading of level 3 after one of level 1"),
        ("<h1>B</h1>", "2 headings of the first level"),
        ('<a href="/1">See it</a> <a href="/2">See it</a>', "'See it' leads to /1 and to /2"),
        ('<a href="/1">12</a>', "a link without words"),
        ('<a href="/1">rejected<span>3</span></a>', "words run together"),
        ("<button><svg aria-hidden='true'></svg></button>", "a button without words"),
        ("<table><tr><th scope='col'>A</th></tr></table>", "a table without a name"),
        ("<table aria-label='A'><tr><th>A</th></tr></table>", "a table's header without scope"),
        ("<svg role='img'><path/></svg>", "a picture without words"),
        ("<input name='a'>", "a field without a label"),
        ("<section aria-labelledby='gone'></section>", "names gone, which is not there"),
        ("<nav aria-label='A'></nav><nav aria-label='A'></nav>", "two landmarks alike"),
    ],
)
def test_what_would_be_misheard_is_told(part: str, told: str) -> None:
    assert any(told in flaw for flaw in flaws(PAGE.format(part)))


@pytest.mark.parametrize(
    "part",
    [
        '<ul><li>one <a href="/1">See it</a></li><li>two <a href="/2">See it</a></li></ul>',
        '<a href="/1">rejected <span>3</span></a>',
        '<a href="/1">3<span class="hidden"> rejected</span></a>',
        '<a href="/1" title="Only from planner"><svg aria-hidden="true"><path/></svg></a>',
        '<div role="region" aria-label="A"><table><tr><th scope="col">A</th></tr></table></div>',
        '<svg role="img"><title>A</title></svg>',
        '<label>A <input name="a"></label><label for="b">B</label><input id="b">',
    ],
)
def test_what_is_clear_is_left_alone(part: str) -> None:
    assert flaws(PAGE.format(part)) == []
