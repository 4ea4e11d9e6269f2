"""Snapshots of Celery tasks: old and new processes that run side by side take each other's messages."""

import inspect
import json
from typing import Any

import pytest

from handoffaudit.celery import app
from tests.surface.snapshots import FOLDER, check

RECORDED = json.loads((FOLDER / "tasks.json").read_text()) if (FOLDER / "tasks.json").exists() else {}


def tasks() -> dict[str, Any]:
    app.loader.import_default_modules()
    return {
        name: {
            "arguments": {
                one.name: str(one.kind.description) for one in inspect.signature(task.run).parameters.values()
            },
            "queue": app.amqp.router.route({}, name)["queue"].name,
        }
        for name, task in app.tasks.items()
        if name.startswith("handoffaudit.")
    }


def test_names_arguments_and_queues_of_tasks() -> None:
    check("tasks", tasks())


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_a_message_of_the_version_before_is_taken(name: str) -> None:
    """A message that was queued before an upgrade finds its task, and the task takes its arguments."""
    app.loader.import_default_modules()
    arguments = dict.fromkeys(RECORDED[name]["arguments"])
    message = app.amqp.as_task_v2("an-id", name, args=(), kwargs=arguments)
    task = app.tasks[message.headers["task"]]
    args, kwargs, _ = message.body
    task.__header__(*args, **kwargs)
