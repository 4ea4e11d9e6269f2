"""Tests of large logs against real processes: the web process stays small, and killed work is finished."""

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.resilience.processes import Installation, eventually, kill
from tests.running.conftest import descendants

MOST_BYTES = 64 * 1024 * 1024
NUMBER = 600_000


def memory(pid: int) -> int:
    """Return the resident bytes of the largest process of the web server."""
    return max(_field(one, "VmRSS") for one in (pid, *descendants(pid)))


def growth(pid: int, request: Callable[[], None]) -> int:
    """Return by how many bytes the web server grew while it answered."""
    rest = memory(pid)
    family = (pid, *descendants(pid))
    for one in family:
        # Writing 5 resets the peak of the resident memory.
        Path(f"/proc/{one}/clear_refs").write_text("5")
    request()
    return max(_field(one, "VmHWM") for one in family) - rest


def _field(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


@pytest.mark.nightly
@pytest.mark.parametrize("installation", ["embedded"], indirect=True)
def test_a_large_log_is_refused_or_stored_by_a_worker_and_searched_in_bounded_memory(
    installation: Installation,
) -> None:
    web = installation.web()
    chance = random.Random(1)  # noqa: S311 -- only so that it packs badly
    noise = chance.randbytes(16 * 1024 * 1024).hex().encode()
    noise = b"\n".join(noise[at : at + 200] for at in range(0, len(noise), 200))
    bomb = gzip.compress(b"x\n" * 15_000_000)
    dense = b"x\n" * NUMBER
    with installation.client() as client:
        for _ in range(3):
            assert client.get("/logs").status_code == 200

        def send(source: str, body: bytes, status: int) -> None:
            answer = client.post("/logs", params={"source": source}, content=body)
            assert answer.status_code == status, answer.text

        assert growth(web.pid, lambda: send("bomb", bomb, 413)) < MOST_BYTES
        assert growth(web.pid, lambda: send("noise", noise, 202)) < MOST_BYTES
        assert growth(web.pid, lambda: send("dense", dense, 202)) < MOST_BYTES
        assert growth(web.pid, lambda: send("inline", noise[: 9 * 1024 * 1024], 202)) < MOST_BYTES
        imports = {one["source"]: one for one in client.get("/logs/imports").json()["items"]}
        assert set(imports) == {"noise", "dense", "inline"}
        assert (imports["dense"]["stored"], imports["dense"]["size"]) == (0, 2 * NUMBER)

        first = installation.worker()
        lines = "SELECT coalesce(sum(lines), 0) FROM diagnostics_logimport WHERE source = 'dense'"
        eventually(lambda: installation.query(lines)[0][0] > 0, what=installation.log())
        kill(first)
        installation.worker()
        link = f"/logs/imports/{imports['dense']['id']}"
        eventually(lambda: client.get(link).json()["finished_at"], 240, installation.log())
        made = client.get(link).json()
        assert [made[name] for name in ("stored", "lines", "known", "bad")] == [2 * NUMBER, NUMBER, 0, NUMBER]
        assert installation.query("SELECT sum(number) FROM diagnostics_logcount WHERE kind = 'bad'")[0][0] >= NUMBER

        def search() -> None:
            found = client.get("/logs", params={"kind": "bad", "source": "dense", "limit": 200}).json()
            assert [line["number"] for line in found["items"]] == list(range(NUMBER, NUMBER - 200, -1))

        assert growth(web.pid, search) < MOST_BYTES
