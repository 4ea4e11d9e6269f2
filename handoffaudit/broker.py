"""The broker of the embedded way: kombu's folder of messages, with each message complete before anybody can see it.

kombu writes into the file that a reader may take already; a reader that gets half a message ends its worker.
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
    """Messages appear by being renamed, which is one step on a file system."""

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
        """Of two processes that start at once, one may find the file that the other has not written yet."""
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
