"""The invariants of an installation after any accident, checked inside the installation."""

import json

from tests.resilience.processes import Installation, eventually

LOOK = """
import json
from collections import Counter
from handoffaudit.handoffs import counts, recount
from handoffaudit.handoffs.models import Event, Handoff, Verdict
events = {}
for event in Event.objects.order_by("id"):
    events.setdefault(event.handoff_id, []).append((event.from_state, event.to_state))
told = Counter(" ".join([way[0][0], *(to for _, to in way)]).strip() for way in events.values())
joined = all(one[1] == after[0] for way in events.values() for one, after in zip(way, way[1:]))
print(json.dumps({
    "states": Counter(Handoff.objects.values_list("state", flat=True)),
    "verdicts": Verdict.objects.count(),
    "judged": Verdict.objects.values("handoff").distinct().count(),
    "parked": Handoff.objects.filter(parked=True).count(),
    "told": told,
    "joined": joined,
    "wrong": recount.recount(repair=False).wrong,
}))
"""


def assert_all_are_judged_once(installation: Installation, number: int) -> None:
    eventually(lambda: installation.waiting() == 0, what=installation.log())
    found = json.loads(installation.run(LOOK))
    assert found == {
        "states": {"accepted": number},
        "verdicts": number,
        "judged": number,
        "parked": 0,
        "told": {"received validating accepted": number},
        "joined": True,
        "wrong": 0,
    }
