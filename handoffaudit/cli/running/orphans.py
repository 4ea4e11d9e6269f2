"""No process outlives the one that started it, even where that one was killed."""

import os
import signal
import threading
import time

LOOK_SECONDS = 0.5
GRACE_SECONDS = 5.0


def end_with(parent: int) -> None:
    """Ends this process soon after `parent`, its parent process, has ended."""
    threading.Thread(target=_watch, args=(parent,), name="parent-watch", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)
