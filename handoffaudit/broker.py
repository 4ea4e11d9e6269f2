"""Broker without Redis: kombu's filesystem transport, with messages that are complete before a reader can see them.

kombu writes into a file that readers may already take, and half a message ends the worker that reads it.
"""

import time
import uuid
from pathlib import Path
from typing import Any

import orjson
from kombu.exceptions import ChannelError
from kombu.transport import filesystem

BINDING_TRIES = 20
BINDING_PAUSE_SECONDS = 0.01


class Channel(filesystem.Channel):
    """A channel that publishes messages by a rename, which is atomic on a file system."""

    def _put(self, queue: str, payload: Any, **_: Any) -> None:  # type: ignore[override]
        folder = Path(self.data_folder_out)
        name = f"{round(time.monotonic() * 1000)}_{uuid.uuid4()}"
        written = folder / f"{name}.part"
        try:
            written.write_bytes(orjson.dumps(payload, default=str))
            written.replace(folder / f"{name}.{queue}.msg")
        except OSError as error:
            raise ChannelError(f"Cannot add a message to {folder}") from error

    def _queue_bind(self, *arguments: Any) -> None:
        """Bind the queue, with retries: of two processes that start at once, one may find the other's file empty."""
        for left in reversed(range(BINDING_TRIES)):
            try:
                super()._queue_bind(*arguments)  # type: ignore[no-untyped-call]
            except ValueError:
                if not left:
                    raise
                time.sleep(BINDING_PAUSE_SECONDS)
            else:
                return


class Transport(filesystem.Transport):
    Channel = Channel
