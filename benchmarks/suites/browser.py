"""Benchmark of pages in Chromium, with the larger number of handoffs, against a static page.

The static page comes from the same server software as the product's pages.
"""

import http.client
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager

from benchmarks import places, rig, servers
from benchmarks.chromium import Seen, chromium, visit, watch
from benchmarks.options import Options
from benchmarks.places import Place
from benchmarks.report import Row, number

KILOBYTES, FIRST_BYTE, DEPTH = 100, 100, 2


def browser(options: Options) -> Iterator[Row]:
    if "postgresql" in options.databases:
        yield from _of(places.postgresql("browser", options.filled), options)
    if "sqlite" in options.databases:
        yield from _of(places.sqlite(), options)


def _of(at: "AbstractContextManager[Place]", options: Options) -> Iterator[Row]:
    with at as place:
        rig.migrate(place)
        filled = rig.ask(place, "fill", rows=options.rows[1])
        cookie = rig.ask(place, "session")
        about = f"{place.name}, {number(options.rows[1])} handoffs"
        with servers.product(place) as web, servers.floor(place) as bare, chromium() as tabs:
            floor = visit(tabs, f"http://127.0.0.1:{bare.port}/page", "", options.visits)
            for name, path in _pages(filled).items():
                seen = visit(tabs, f"http://127.0.0.1:{web.port}/t/default/{path}", cookie, options.visits)
                yield _row(f"{name}, {about}", seen, floor)
            minutes = options.idle_minutes
            idle = watch(tabs, f"http://127.0.0.1:{web.port}/t/default/handoffs/", cookie, minutes * 60)
            yield Row(
                what=f"an idle viewer of the list, {about}",
                figure=f"{idle.requests / minutes:.1f} requests a minute over {minutes} minutes; each "
                f"{idle.sent:,.0f} bytes out, {idle.received:,.0f} bytes back, headers included",
                goal="≤ 2 a minute",
                met=idle.requests / minutes <= 2,
            )
            yield _asked(web.port, bare.port, cookie, filled, options, about)


def _pages(filled: dict[str, list[tuple[str, str]]]) -> dict[str, str]:
    shown = filled["shown"]
    return {
        "overview, 24 hours": "",
        "overview, 30 days": "?period=30d",
        "handoffs": "handoffs/",
        "handoffs by code and state": "handoffs/?code=chain.circular&state=rejected",
        "one handoff": f"handoffs/{shown[0][0]}/",
        "findings": "groups/",
        "review": "review/",
        "review, searched by code": "review/?q=chain.circular",
        # The page opens the first handoff of the queue, and prefetches the handoff after it.
        "review, one open": "review/next/",
        "traces": "traces/",
        "one trace": f"traces/{filled['trace']}/",
        "agents": "agents/",
        "one agent": "agents/agent-01/",
        "strictness": "strictness/",
        "rules": "rules/",
        "schemas": "schemas/",
        "prompts": "prompts/",
        "handoff files": "diagnostics/",
        "compliance": "diagnostics/compliance/?period=30d",
        "overturned": "diagnostics/noise/",
        "logs": "diagnostics/logs/",
        "people": "settings/",
        "audit log": "settings/audit/",
    }


def _row(what: str, seen: Seen, floor: Seen) -> Row:
    return Row(
        what=what,
        figure=f"{seen.kilobytes:.0f} KB, again {seen.again_kilobytes:.0f} KB; {seen.requests} requests, depth "
        f"{seen.depth}; first byte p50 {seen.first_byte:.0f}, p95 {seen.first_byte_p95:.0f} ms; shift {seen.shift:.3f}",
        floor=f"static page {floor.kilobytes:.1f} KB, first byte {floor.first_byte:.1f} ms",
        ratio=f"{seen.first_byte / floor.first_byte:.1f}",
        goal=f"< {KILOBYTES} KB, < {FIRST_BYTE} ms, depth ≤ {DEPTH}, shift 0",
        met=seen.kilobytes < KILOBYTES
        and seen.first_byte < FIRST_BYTE
        and seen.depth <= DEPTH
        and round(seen.shift, 3) == 0,
    )


def _asked(
    product: int, bare: int, cookie: str, filled: dict[str, list[tuple[str, str]]], options: Options, about: str
) -> Row:
    """Measure how long the server takes to answer a list's poll for new rows, on one connection."""
    rows = "~".join(f"{pk.replace('-', '')}.2" for pk, _ in filled["shown"][:20])
    nothing_newer = f"/t/default/handoffs/new/?after=ffffffff-0000-7000-8000-000000000000&rows={rows}"
    most = max(30, options.requests)
    asked = _times(product, nothing_newer, cookie, most)
    empty = _times(bare, "/empty", "", most)
    asked_ms, empty_ms = asked[most // 2], empty[most // 2]
    return Row(
        what=f"what a list asks while nothing changes, {about}",
        figure=f"p50 {asked_ms:.1f}, p95 {asked[int(0.95 * most)]:.1f} ms",
        floor=f"empty view {empty_ms:.1f} ms",
        ratio=f"{asked_ms / empty_ms:.1f}",
    )


def _times(port: int, path: str, cookie: str, number_of: int) -> list[float]:
    """Return the sorted times of the requests in milliseconds, without the first request.

    The load generator can't measure these requests, because it does not understand an answer without a body.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    found = []
    try:
        for _ in range(number_of + 1):
            began = time.perf_counter()
            connection.request("GET", path, headers={"Host": "localhost", "Cookie": cookie})
            answer = connection.getresponse()
            answer.read()
            found.append((time.perf_counter() - began) * 1000)
            if answer.status not in (http.HTTPStatus.OK, http.HTTPStatus.NO_CONTENT):
                raise RuntimeError(f"{path} was answered with {answer.status}")
    finally:
        connection.close()
    return sorted(found[1:])
