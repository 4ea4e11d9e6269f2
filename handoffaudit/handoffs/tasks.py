"""The Celery tasks. A message carries no data: the work to do is in the database."""

import threading

from celery import shared_task
from django.conf import settings

from handoffaudit.handoffs import judge
from handoffaudit.handoffs.dry_runs import run as dry_runs_run
from handoffaudit.handoffs.llm import run
from handoffaudit.handoffs.notify import Slots
from handoffaudit.handoffs.webhooks import worker

# More concurrent drains in one process would only wait for each other.
drains = Slots(lambda: 2)
# Slots for threads that wait for the LLM.
checkers = Slots(lambda: int(settings.MODEL_CONCURRENCY))
_asked = threading.Event()
_one_trial = threading.Lock()
_one_prompt_trial = threading.Lock()


@shared_task(name="handoffaudit.handoffs.tasks.judge_waiting", ignore_result=True)  # type: ignore[untyped-decorator]
def judge_waiting() -> None:
    """Judge all waiting handoffs. If enough drains already run, one of them looks again instead."""
    _asked.set()
    while _asked.is_set() and drains.acquire():
        try:
            _asked.clear()
            judge.drain()
        finally:
            drains.release()


@shared_task(name="handoffaudit.handoffs.tasks.try_drafts", ignore_result=True)  # type: ignore[untyped-decorator]
def try_drafts() -> None:
    """Run the waiting dry runs one after another, to leave room for judging."""
    if _one_trial.acquire(blocking=False):
        try:
            dry_runs_run.run_waiting()
        finally:
            _one_trial.release()


@shared_task(name="handoffaudit.handoffs.tasks.try_prompts", ignore_result=True)  # type: ignore[untyped-decorator]
def try_prompts() -> None:
    """Run the waiting dry runs that ask the LLM one after another, to leave room for checks."""
    if _one_prompt_trial.acquire(blocking=False):
        try:
            dry_runs_run.run_waiting(with_model=True)
        finally:
            _one_prompt_trial.release()


@shared_task(name="handoffaudit.handoffs.tasks.check_waiting", ignore_result=True)  # type: ignore[untyped-decorator]
def check_waiting() -> None:
    """Run the waiting LLM checks one handoff after another, in at most `MODEL_CONCURRENCY` threads of this process."""
    if checkers.acquire():
        try:
            run.drain()
        finally:
            checkers.release()


@shared_task(name="handoffaudit.handoffs.tasks.tell_subscribers", ignore_result=True)  # type: ignore[untyped-decorator]
def tell_subscribers() -> None:
    """Wake the threads of this process that deliver webhooks."""
    worker.wake()
