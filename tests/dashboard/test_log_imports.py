import gzip
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from handoffaudit import request_bodies
from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.dashboard.diagnostics import uploads
from handoffaudit.diagnostics.logs import index, upload
from handoffaudit.diagnostics.models import LogBlock, LogImport
from tests.dashboard.log_lines import BAD, gate, health, moment, older, take, trace
from tests.pages import attributes, links, text_of, texts

SignIn = Callable[[Person], Client]
ADDRESS = "/t/acme/diagnostics/logs/import/"
SEND = f"{ADDRESS}send/"


def log_of(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


LOG = log_of(*(gate(moment(9), details=str(number)) for number in range(4)), BAD)


def file(content: bytes, name: str = "agents.log") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content)


def send(client: Client, *files: SimpleUploadedFile, origin: str = "", **options: Any) -> Any:
    return client.post(SEND, {"log": list(files), "origin": origin}, **options)


def test_a_log_sent_by_a_plain_form_is_stored_and_its_page_follows(sign_in: SignIn, reviewer: Person) -> None:
    client = sign_in(reviewer)
    answer = send(client, file(LOG))
    taken = LogImport.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, f"{ADDRESS}{taken.pk}/")
    assert (taken.source, taken.sent_by, taken.lines, taken.size) == ("agents.log", "reviewer", 5, len(LOG))


def test_a_script_is_told_where_to_go(sign_in: SignIn, reviewer: Person) -> None:
    answer = send(sign_in(reviewer), file(LOG), headers={"HX-Request": "true"})
    assert answer["HX-Redirect"] == f"{ADDRESS}{LogImport.objects.get().pk}/"


def test_several_are_kept_apart_by_their_names_and_where_they_are_from(sign_in: SignIn, reviewer: Person) -> None:
    answer = send(sign_in(reviewer), file(LOG), file(gzip.compress(LOG), "gate.log.gz"), origin=" ci-3 ")
    assert answer["Location"] == ADDRESS
    taken = LogImport.objects.order_by("source")
    assert [(one.source, one.lines, one.size) for one in taken] == [
        ("ci-3/agents.log", 5, len(LOG)),
        ("ci-3/gate.log", 5, len(LOG)),
    ]


def test_the_page_of_a_refused_upload_asks_the_list_for_progress(sign_in: SignIn, reviewer: Person) -> None:
    client = sign_in(reviewer)
    send(client, file(LOG))
    LogImport.objects.update(finished_at=None)
    assert attributes(send(client), "#imports", "hx-get") in ([ADDRESS], [f"{ADDRESS}?"])


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ([], "No log was uploaded"),
        ([file(b"")], "No log was uploaded"),
        ([file(gzip.compress(LOG * 50)[:-9])], "read to its end"),
        ([file(b"\x1f\x8b no gzip at all")], "read to its end"),
    ],
)
def test_what_is_no_log_is_refused_with_the_reason(
    sign_in: SignIn, reviewer: Person, files: list[SimpleUploadedFile], told: str
) -> None:
    answer = send(sign_in(reviewer), *files)
    assert answer.status_code == 400
    assert told in answer.text
    assert "handoffaudit import-log FILE" in answer.text
    assert not [one for one in LogImport.objects.all() if not one.error]


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}])
def test_a_form_that_is_too_large_is_refused_before_it_is_read_and_the_command_named(
    sign_in: SignIn, reviewer: Person, settings, headers: dict[str, str]
) -> None:
    settings.MAX_LOG_BYTES = 100
    answer = send(sign_in(reviewer), file(b"x" * (100 + uploads.FORM_BYTES)), headers=headers)
    assert answer.status_code == 413
    assert "larger than 100 bytes" in answer.text
    assert "handoffaudit import-log FILE --tenant acme" in answer.text
    assert ("<html" in answer.text) is not headers
    assert not LogImport.objects.exists()


def test_a_small_file_with_too_much_in_it_is_stopped(sign_in: SignIn, reviewer: Person, settings) -> None:
    settings.MAX_LOG_BYTES = 3 * uploads.ToDataFolder.chunk_size
    bomb = gzip.compress(b"x" * (settings.MAX_LOG_BYTES + 1))
    answer = send(sign_in(reviewer), file(bomb, "agents.log.gz"))
    assert answer.status_code == 413
    assert LogImport.objects.get().error


def test_where_many_are_sent_at_once_the_next_one_is_asked_to_come_later(sign_in: SignIn, reviewer: Person) -> None:
    held = [uploads._slots.acquire(blocking=False) for _ in range(uploads.MOST_AT_ONCE)]
    try:
        answer = send(sign_in(reviewer), file(LOG))
    finally:
        for _ in held:
            uploads._slots.release()
    assert answer.status_code == 503
    assert "Upload the log again in a minute" in answer.text
    assert send(sign_in(reviewer), file(LOG)).status_code == 302


def test_who_may_not_send_is_refused_before_the_form_is_read(
    sign_in: SignIn, viewer: Person, client: Client, monkeypatch
) -> None:
    monkeypatch.setattr(uploads, "_take", lambda *_: pytest.fail("the form was read"))
    assert send(client, file(LOG)).status_code == 302
    assert send(sign_in(viewer), file(LOG)).status_code == 403


@pytest.mark.parametrize(
    ("path", "takes"),
    [
        (SEND, True),
        ("/t/acme/diagnostics/logs/import/", False),
        ("/t/acme/handoffs/t/acme/diagnostics/logs/import/send/", False),
        ("/sign-in/", False),
    ],
)
def test_only_that_form_may_be_large(path: str, takes: bool) -> None:
    assert bool(request_bodies.LOG_FORM.match(path)) is takes


def test_the_page_of_an_import_tells_what_it_brought(sign_in: SignIn, viewer: Person, tenant: Tenant) -> None:
    lines = [health(moment()), older(moment()), gate(moment()), trace(moment()), BAD]
    take(tenant, *lines)
    again = take(tenant, *lines, "and <b>more</b> of it")
    page = sign_in(viewer).get(f"{ADDRESS}{again.pk}/")
    one = page.context["one"]
    assert (one.row.lines, one.row.known, one.new, one.row.bad, one.state) == (6, 5, 1, 1, "read")
    assert {kind.name: kind.number for kind in one.kinds}["Bad"] == 1
    assert [(bad.number, bad.text) for bad in page.context["bad_lines"]] == [(6, "and <b>more</b> of it")]
    assert "and &lt;b&gt;more" in page.text
    assert 'hx-trigger="every' not in page.text


def test_the_page_of_an_import_has_the_reasons_of_its_log(sign_in: SignIn, viewer: Person, tenant: Tenant) -> None:
    health = "agent=planner phase=plan source=text_fallback reason={} timestamp=2026-02-15T0{}:15:00Z"
    reasons = ("file_missing", "schema_invalid", "file_missing")
    taken = take(tenant, *(health.format(reason, at) for at, reason in enumerate(reasons)), source="health.log")
    page = sign_in(viewer).get(f"{ADDRESS}{taken.pk}/")
    heading = '[aria-labelledby="reasons-title"]'
    assert texts(page, f"{heading} li") == ["file_missing 2", "schema_invalid 1"]
    assert links(page, f"{heading} a")[0] == "/t/acme/diagnostics/logs/?event=file_missing&source=health.log"


def test_the_links_of_an_import_keep_the_blanks_of_its_name(sign_in: SignIn, viewer: Person, tenant: Tenant) -> None:
    taken = take(tenant, health(moment()), source=" agents.log ")
    client = sign_in(viewer)
    found = [link for link in links(client.get(f"{ADDRESS}{taken.pk}/")) if "source=" in link]
    # The line is among all lines, those of its kind, and those with its reason.
    assert sum(len(client.get(link).context["rows"]) for link in found) == 3


def test_bad_lines_are_shown_in_pages_with_their_numbers(
    sign_in: SignIn, viewer: Person, tenant: Tenant, monkeypatch
) -> None:
    monkeypatch.setattr(uploads, "MOST_BAD", 2)
    taken = take(tenant, BAD, gate(moment()), "two", BAD, "three", gate(moment()), BAD)
    client, address, numbers = sign_in(viewer), f"{ADDRESS}{taken.pk}/", []
    while address:
        page = client.get(address)
        numbers += [bad.number for bad in page.context["bad_lines"]]
        following = page.context["next_bad"]
        address = f"{ADDRESS}{taken.pk}/?after={following}" if following else ""
    assert numbers == [1, 3, 4, 5, 7]
    assert client.get(f"{ADDRESS}{taken.pk}/?after=x").status_code == 400


def test_while_it_is_read_the_page_asks_again_and_then_no_more(sign_in: SignIn, viewer: Person, tenant: Tenant) -> None:
    taken = take(tenant, *(gate(moment()) for _ in range(10)), BAD, read=False)
    client, headers = sign_in(viewer), {"HX-Request": "true", "HX-Target": "reading"}
    page = client.get(f"{ADDRESS}{taken.pk}/", headers=headers).text
    assert 'hx-trigger="every 1s"' in page
    assert "0 of 11 new lines read" in page
    assert 'hx-trigger="every 2s"' in client.get(ADDRESS).text
    index.drain()
    page = client.get(f"{ADDRESS}{taken.pk}/", headers=headers).text
    assert "<html" not in page
    assert 'hx-trigger="every' not in page
    assert "All read: 11 new lines, 1 bad." in page
    assert "every 2s" not in client.get(ADDRESS).text


def test_while_a_large_log_is_stored_the_page_says_how_far_it_is(
    sign_in: SignIn, reviewer: Person, monkeypatch
) -> None:
    monkeypatch.setattr(upload, "INLINE_LINES", 3)
    client = sign_in(reviewer)
    address = send(client, file(LOG))["Location"]
    page = client.get(address).text
    assert "being stored" in page
    assert f"0 bytes of {len(LOG)} bytes stored (0 %)" in text_of(page)
    assert 'hx-trigger="every 1s"' in page
    assert "being stored" in client.get(ADDRESS).text
    upload.drain()
    index.drain()
    page = client.get(address).text
    assert 'hx-trigger="every' not in page
    assert (LogImport.objects.get().lines, LogImport.objects.get().bad) == (5, 1)


def test_a_packed_log_that_becomes_far_larger_is_refused(sign_in: SignIn, reviewer: Person, monkeypatch) -> None:
    monkeypatch.setattr(upload, "FREE_BYTES", 100_000)
    answer = send(sign_in(reviewer), file(gzip.compress(b"x\n" * 200_000), "small.gz"))
    assert answer.status_code == 413
    assert "small.gz unpacks to more than 100 times its size" in answer.text
    assert "HANDOFFAUDIT_MAX_LOG_RATIO" in answer.text


def test_where_no_worker_reads_it_the_page_says_so(sign_in: SignIn, viewer: Person, tenant: Tenant) -> None:
    taken = take(tenant, gate(moment()), read=False)
    client = sign_in(viewer)
    assert "Check that a worker is running." not in client.get(f"{ADDRESS}{taken.pk}/").text
    LogImport.objects.update(received_at=timezone.now() - 2 * uploads.LATE)
    assert "Check that a worker is running." in client.get(f"{ADDRESS}{taken.pk}/").text


def test_imports_are_listed_newest_first_in_pages(sign_in: SignIn, viewer: Person, tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(uploads, "IMPORTS", 2)
    for number in range(3):
        take(tenant, gate(moment()), source=f"{number}.log")
    client = sign_in(viewer)
    page = client.get(ADDRESS)
    older_page = client.get(page.context["next"])
    named = [[one.name for one in each.context["imports"]] for each in (page, older_page)]
    assert named == [["2.log", "1.log"], ["0.log"]]
    assert client.get(f"{ADDRESS}?cursor=x").status_code == 400
    assert client.get(f"{ADDRESS}?sort=lines").status_code == 400


def test_the_heads_of_columns_sort_the_imports(sign_in: SignIn, viewer: Person, tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(uploads, "IMPORTS", 2)
    client = sign_in(viewer)
    for name in "bca":
        take(tenant, gate(moment()), source=f"{name}.log")
    page = client.get(f"{ADDRESS}?sort=log").text
    assert texts(page, "tbody th") == ["a.log", "b.log"]
    assert texts(page, "[aria-sort=ascending]") == ["Log"]
    sorts = ["sort=-log#sort-log", "#sort-newest", "sort=-size#sort-size", "sort=-bad#sort-bad"]
    assert [one.removeprefix(ADDRESS).lstrip("?") for one in links(page, "thead a")] == sorts
    following = links(page, "[rel=next]")[0]
    assert texts(client.get(following).text, "tbody th") == ["c.log"]


def test_an_import_of_another_tenant_is_not_there(sign_in: SignIn, viewer: Person, other_tenant: Tenant) -> None:
    theirs = take(other_tenant, gate(moment()), source="theirs.log")
    client = sign_in(viewer)
    assert client.get(f"{ADDRESS}{theirs.pk}/").status_code == 404
    assert "theirs.log" not in client.get(ADDRESS).text


def test_what_broke_off_is_told(sign_in: SignIn, reviewer: Person) -> None:
    client = sign_in(reviewer)
    random = Random(7)  # noqa: S311 -- only so that it packs badly
    lines = log_of(*(gate(moment(), details=random.randbytes(200).hex()) for _ in range(20_000)))
    send(client, file(gzip.compress(lines, 1)[:-2000], "cut.log.gz"))
    index.drain()
    taken = LogImport.objects.get()
    assert LogBlock.objects.filter(imported=taken).exists()
    page = client.get(f"{ADDRESS}{taken.pk}/").text
    assert "The lines read so far are stored" in page
    assert 'hx-trigger="every' not in page
