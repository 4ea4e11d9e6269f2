"""Alerts in words: what happened, what it means and what to do, and which handoffs it is about."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from handoffaudit.handoffs import awaiting
from handoffaudit.handoffs.alerts import Kind
from handoffaudit.handoffs.models import Alert
from handoffaudit.validation.text import counted


@dataclass(frozen=True, slots=True)
class About:
    """A kind of alert. `title` makes one line of an alert; `query` is the address of the handoffs that it is about
    among all, empty where it is about none; `link_text` names them. `of_model`: Model health says more."""

    title: Callable[[Alert], str]
    meaning: str
    query: str = ""
    link_text: str = ""
    of_model: bool = False


def about(alert: Alert) -> About:
    found = _ABOUT[Kind(alert.kind)]
    return _of_queue(alert, found) if alert.kind == Kind.QUEUE_AGE and alert.acknowledged_at is None else found


def _of_queue(alert: Alert, found: About) -> About:
    """What they wait for now: that is who should be looked after."""
    oldest = awaiting.oldest(alert.tenant_id)
    if oldest is None:
        return found
    if oldest.for_model:
        return replace(found, title=_model_age, meaning=_WAIT_FOR_MODEL, of_model=True)
    return replace(found, title=_worker_age, meaning=_WAIT_FOR_WORKER)


def title(alert: Alert) -> str:
    return about(alert).title(alert)


def value(alert: Alert) -> float:
    """The figure of the alert: of a threshold what was measured last, else how many it counts."""
    return float(alert.number) if alert.value is None else alert.value


def span(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h`, `2 d`."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length * (2 if unit != "min" else 1):
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} s"


def _would_have_rejected(alert: Alert) -> str:
    return f"The model would have rejected {counted(alert.number, 'handoff')} that passed without it"


def _model_unavailable(alert: Alert) -> str:
    return f"{counted(alert.number, 'handoff')} {'is' if alert.number == 1 else 'are'} not checked by the model"


def _webhook_failing(alert: Alert) -> str:
    return f"{counted(alert.number, 'delivery', 'deliveries')} to subscribers failed for good"


def _rejection_rate(alert: Alert) -> str:
    return f"{value(alert) * 100:.1f} % of what was judged is rejected"


def _queue_age(alert: Alert) -> str:
    return f"The oldest handoff had waited {span(value(alert))} to be judged"


def _worker_age(alert: Alert) -> str:
    return f"The oldest handoff has waited {span(value(alert))} to be judged"


def _model_age(alert: Alert) -> str:
    return f"The oldest handoff has waited {span(value(alert))} for the model's check"


def _fail_open(alert: Alert) -> str:
    return f"{counted(int(value(alert)), 'handoff')} passed without the model's check"


def _overdue_holds(alert: Alert) -> str:
    number = int(value(alert))
    return f"{counted(number, 'held handoff')} {'is' if number == 1 else 'are'} overdue"


def _no_handoffs(alert: Alert) -> str:
    return f"No handoff for {span(value(alert))}"


_WAIT_FOR_WORKER = (
    "Nothing judged them yet: workers don't keep up, or none runs. The overview and /readyz say where none was seen. "
    "Look at the worker's log, start one, or start more of them. It closes by itself when the queue is short again."
)
_WAIT_FOR_MODEL = (
    "They are judged but for the model's part. Model health says whether it answers, and whether anybody asks it. It "
    "closes by itself when the queue is short again."
)
_ABOUT = {
    Kind.WOULD_HAVE_REJECTED: About(
        _would_have_rejected,
        "They were accepted while the model could not be asked. Asked later, it found what would have stopped them. "
        "They stay accepted, and are flagged: look at each, tell whoever received it, and acknowledge.",
        "flag=flagged",
        "See the flagged handoffs",
    ),
    Kind.MODEL_UNAVAILABLE: About(
        _model_unavailable,
        "The model can't be asked, so its check is missing from them. They are gone over when it answers again, and "
        "this alert closes by itself. Model health says why, and what to mend.",
        "flag=unverified",
        "See the unverified handoffs",
        of_model=True,
    ),
    Kind.WEBHOOK_FAILING: About(
        _webhook_failing,
        "A receiver could not be reached for hours, or refused what it got, and these are not tried again. Settings, "
        "Webhooks says which and why; from there they can be sent again. Then acknowledge.",
    ),
    Kind.REJECTION_RATE: About(
        _rejection_rate,
        "More than usual is rejected. The reasons on the overview tell whether one agent or one rule is behind it. It "
        "closes by itself when the rate is below the threshold again.",
        "state=rejected",
        "See the rejected handoffs",
    ),
    Kind.QUEUE_AGE: About(
        _queue_age,
        "Handoffs were not judged in time. It closes by itself when the queue was short for a while.",
        "state=received&state=validating",
        "See what waits",
    ),
    Kind.FAIL_OPEN: About(
        _fail_open,
        "The model could not be asked, and their types let them pass. Model health says why. It closes by itself when "
        "fewer are unverified.",
        "flag=unverified&state=accepted",
        "See the unverified handoffs",
    ),
    Kind.OVERDUE_HOLDS: About(
        _overdue_holds,
        "They wait for a person for longer than their types allow. Decide them, oldest first; it then closes by "
        "itself.",
        "flag=overdue",
        "See the overdue handoffs",
    ),
    Kind.NO_HANDOFFS: About(
        _no_handoffs,
        "Something usually arrives in that time: look whether the senders run, and whether their key still works. It "
        "closes by itself when a handoff arrives.",
    ),
}
