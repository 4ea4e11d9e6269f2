"""Tests that workers take large handoffs a few at a time, whichever part of the submission is large."""

import orjson
import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.verdicts import CHUNK_BYTES, chunk_by_size
from tests.handoffs.support import payload, submit

pytestmark = pytest.mark.django_db
LARGE = "x" * (CHUNK_BYTES // 6)


@pytest.mark.parametrize(
    "sent",
    [
        {"context": {"text": LARGE}},
        {"evidence": [{"source": "s", "content": {"text": LARGE}}]},
        {"document": payload(data={"text": LARGE})},
    ],
    ids=["context", "evidence", "document"],
)
def test_large_ones_are_taken_a_few_at_a_time(tenant: Tenant, sent: dict[str, object]) -> None:
    for number in range(7):
        submit(tenant, orjson.dumps({"document": payload(), **sent, "step": number}))
    handoffs = list(Handoff.objects.order_by("id"))
    found = list(chunk_by_size(handoffs))
    assert [len(part) for part in found] == [5, 2]
    assert [handoff for part in found for handoff in part] == handoffs


def test_small_ones_are_taken_together(tenant: Tenant) -> None:
    for _ in range(7):
        submit(tenant, payload())
    assert [len(part) for part in chunk_by_size(list(Handoff.objects.all()))] == [7]


def test_none_are_no_part() -> None:
    assert list(chunk_by_size([])) == []
