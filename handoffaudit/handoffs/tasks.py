"""The Celery tasks: wake-ups without content. What is to be done stands in the database."""

import threading

from celery import shared_task
from django.conf import settings

from handoffaudit.handoffs import judge
from handoffaudit.handoffs.dry_runs import run as dry_runs_run
from handoffaudit.handoffs.llm import run
from handoffaudit.handoffs.notify import Slots
from handoffaudit.handoffs.webhooks import worker

# More drains than this in one process only wait for each other.
drains = Slots(lambda: 2)
# Threads that wait for the LLM.
checkers = Slots(lambda: int(settings.MODEL_CONCURRENCY))
_asked = threading.Event()
_one_trial = threading.Lock()
_one_prompt_trial = threading.Lock()


@shared_task(name="handoffaudit.handoffs.tasks.judge_waiting", ignore_result=True)  # type: ignore[untyped-decorator]
def judge_waiting() -> None:
    """Judges all that waits. Where enough drains run already, one of them looks again instead."""
    _asked.set()
    while _asked.is_set() and drains.acquire():
        try:
            _asked.clear()
            judge.drain()
        finally:
            drains.release()


@shared_task(name="handoffaudit.handoffs.tasks.try_drafts", ignore_result=True)  # type: ignore[untyped-decorator]
def try_drafts() -> None:
    """Runs the trials that wait, one after another: they must leave room for judging."""
    if _one_trial.acquire(blocking=False):
        try:
            dry_runs_run.run_waiting()
        finally:
            _one_trial.release()


@shared_task(name="handoffaudit.handoffs.tasks.try_prompts", ignore_result=True)  # type: ignore[untyped-decorator]
def try_prompts() -> None:
    """The same of trials that ask the model: they must leave room for checks."""
    if _one_prompt_trial.acquire(blocking=False):
        try:
            dry_runs_run.run_waiting(with_model=True)
        finally:
            _one_prompt_trial.release()


@shared_task(name="handoffaudit.handoffs.tasks.check_waiting", ignore_result=True)  # type: ignore[untyped-decorator]
def check_waiting() -> None:
    """Has the model check what waits for it, one handoff after another; as many of these run as calls may be out."""
    if checkers.acquire():
        try:
            run.drain()
        finally:
            checkers.release()


@shared_task(name="handoffaudit.handoffs.tasks.tell_subscribers", ignore_result=True)  # type: ignore[untyped-decorator]
def tell_subscribers() -> None:
    """Wakes the threads of this process that tell subscribers."""
    worker.wake()
