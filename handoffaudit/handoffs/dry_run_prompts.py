"""Dry runs of prompts: past handoffs judged with the current and the drafted prompts, and an estimate of the cost.

These dry runs ask the LLM, so people see an estimate of the cost first. Only handoffs whose prompts the draft changes
are judged, once with the current prompts and once with the draft. A stored answer of the LLM costs nothing.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.db import connections

from handoffaudit.handoffs import lineage, tool_results
from handoffaudit.handoffs.llm import client, limits
from handoffaudit.handoffs.models import Handoff, HandoffBody
from handoffaudit.handoffs.verdicts import PriorContext, chunk_by_size, reading_of, verdict_on_stored
from handoffaudit.llm.calls import CONTENT_STATUSES
from handoffaudit.llm.service import load_prices
from handoffaudit.validation.config import ValidationConfig
from handoffaudit.validation.formats import workflow_of
from handoffaudit.validation.layers.base import History, LanguageModel
from handoffaudit.validation.prompts.pricing import estimate_call_cost
from handoffaudit.validation.prompts.question import Answer, Question, Reason, Role, Unavailable
from handoffaudit.validation.verdict import Verdict

MOST = 500

AT_ONCE = 4

# The current prompts and the draft each ask up to two questions: the check and a critique.
CALLS_OF_ONE = 4

SAMPLE = 50

MOST_SECONDS = 5.0

# After an outage for any of these reasons, all later questions would fail in the same way, except for the reason
# REFUSED with one of `CONTENT_STATUSES`.
_ENDING: Final = frozenset({Reason.NO_KEY, Reason.REFUSED, Reason.BUDGET, Reason.BREAKER_OPEN})


@dataclass(frozen=True, slots=True)
class Pair:
    """The verdicts on one handoff with the current policy and with the draft.

    Both are None if the draft does not change the prompts of the handoff, or if the document cannot be read. They are
    also None if the documents were removed (`is_removed`), or if the LLM could not be asked (`outage` gives the
    reason).
    """

    handoff: Handoff
    now: Verdict | None = None
    then: Verdict | None = None
    outage: Unavailable | None = None
    is_removed: bool = False

    @property
    def ends_it(self) -> bool:
        outage = self.outage
        return outage is not None and outage.reason in _ENDING and outage.status not in CONTENT_STATUSES


@dataclass(frozen=True, slots=True)
class Cost:
    """The estimated cost of a dry run on `handoffs` handoffs.

    The draft changes the prompts of `touched` handoffs, which need `questions` questions to the LLM for `usd` USD. The
    numbers are extrapolated from the newest `looked_at` handoffs. `left` is the rest of today's budget in USD.
    """

    handoffs: int
    looked_at: int
    touched: int
    questions: int
    usd: float
    left: float

    @property
    def is_too_dear(self) -> bool:
        return self.usd > self.left


class AnswerNotStored(Exception):
    """The error for verdicts that need a new call, because an answer of the LLM is no longer stored."""


def judge_twice(part: Sequence[Handoff], in_force: ValidationConfig, draft: ValidationConfig) -> list[Pair]:
    """Judge each handoff with the current policy and with the draft, and ask the LLM.

    Several threads judge handoffs in parallel. Call outside a transaction.
    """
    histories, bodies = _load_context(part)

    def one(handoff: Handoff) -> Pair:
        body = bodies.get(handoff.pk)
        if body is None:
            return Pair(handoff, is_removed=True)
        try:
            model = _OutageRecorder(client.model_for(handoff.tenant_id, handoff.pk))
            return _judge_pair(handoff, body, histories[handoff.pk], (in_force, draft), model)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, part))


def judge_from_stored_answers(handoff: Handoff, in_force: ValidationConfig, draft: ValidationConfig) -> Pair:
    """Judge a handoff twice with the stored answers of the dry run, without any call to the LLM.

    Raise `AnswerNotStored`, or `HandoffBody.DoesNotExist` if the documents were removed.
    """
    histories, bodies = _load_context([handoff])
    meter = _Meter(handoff.tenant_id)
    body = bodies.get(handoff.pk)
    if body is None:
        raise HandoffBody.DoesNotExist
    pair = _judge_pair(handoff, body, histories[handoff.pk], (in_force, draft), meter)
    if meter.costs:
        raise AnswerNotStored
    return pair


def estimate_cost_of_prompts(
    newest: Sequence[Handoff], total: int, tenant_id: int, in_force: ValidationConfig, draft: ValidationConfig
) -> Cost:
    """Estimate the cost of a dry run on `total` handoffs. The estimate extrapolates from `newest`, the newest of them.

    A person waits for the estimate, so the function stops after `MOST_SECONDS`, even before the end of `newest`.
    """
    meter = _Meter(tenant_id)
    touched = looked_at = 0
    until = time.monotonic() + MOST_SECONDS
    for handoff, body, history in _load_each(newest):
        # A dry run asks nothing about handoffs whose documents were removed.
        if body is not None:
            touched += _judge_pair(handoff, body, history, (in_force, draft), meter).now is not None
        looked_at += 1
        if time.monotonic() > until:
            break
    share = total / looked_at if looked_at else 0.0
    return Cost(
        handoffs=total,
        looked_at=looked_at,
        touched=round(touched * share),
        questions=round(len(meter.costs) * share),
        usd=sum(meter.costs.values()) * share,
        left=max(0.0, settings.MODEL_DAILY_USD - limits.sum_spent_today(tenant_id)),
    )


def _load_each(handoffs: Sequence[Handoff]) -> Iterator[tuple[Handoff, HandoffBody | None, History]]:
    for part in chunk_by_size(handoffs):
        histories, bodies = _load_context(part)
        for handoff in part:
            yield handoff, bodies.get(handoff.pk), histories[handoff.pk]


def _load_context(part: Sequence[Handoff]) -> tuple[Mapping[Any, History], Mapping[Any, HandoffBody]]:
    return lineage.load_histories(list(part)), HandoffBody.objects.in_bulk([handoff.pk for handoff in part])


def _judge_pair(
    handoff: Handoff,
    body: HandoffBody,
    history: History,
    configs: tuple[ValidationConfig, ValidationConfig],
    model: "_OutageRecorder | _Meter",
) -> Pair:
    record = reading_of(handoff, body).record
    if record is None:
        return Pair(handoff)
    scope = handoff.handoff_type, workflow_of(record)
    by_now, by_draft = (config.demands_for(*scope).prompts for config in configs)
    if by_now == by_draft:
        return Pair(handoff)
    before = PriorContext(history, evidence=tool_results.load_evidence([handoff]).of(handoff))
    verdicts = []
    for config in configs:
        verdicts.append(verdict_on_stored(handoff, body, before, config, model=model))
        if model.outage:
            return Pair(handoff, outage=model.outage)
    now, then = verdicts
    return Pair(handoff, now, then)


class _OutageRecorder:
    """A wrapper of the LLM that records an outage.

    A question over its cost limit is not an outage: the verdict is then made without an answer to this question.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.outage: Unavailable | None = None

    def ask(self, question: Question) -> Answer:
        try:
            return self.model.ask(question)
        except Unavailable as error:
            if error.reason is not Reason.TOO_DEAR:
                self.outage = error
            raise


class _Meter:
    """A stand-in for the LLM that returns stored answers and records the cost of each other question.

    A question over its cost limit is not recorded, because the dry run does not ask it either.
    """

    outage: Final = None

    def __init__(self, tenant_id: int) -> None:
        self.tenant_id = tenant_id
        self.costs: dict[str, float] = {}
        self._models = {Role.FAST: settings.MODEL_FAST, Role.CAREFUL: settings.MODEL_CAREFUL}
        self._prices = load_prices()

    def ask(self, question: Question) -> Answer:
        model = self._models[question.role]
        key = client.answer_key(model, question)
        if found := client.find_answer(self.tenant_id, key, question):
            return found
        size = len(question.instructions.encode()) + len(question.content.encode("utf-8", "replace"))
        usd = estimate_call_cost(model, size, question.max_tokens, self._prices)
        if question.max_cost_usd is None or usd <= question.max_cost_usd:
            self.costs[key] = usd
        raise Unavailable(Reason.TOO_DEAR, "An estimate of the cost does not call the LLM.")
