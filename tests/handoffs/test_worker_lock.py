"""Tests of the shared and the exclusive lock of a worker."""

import threading
from unittest.mock import Mock

import pytest

from handoffaudit.handoffs.leases import WorkerLock


def test_one_that_is_alone_waits_for_all_and_holds_off_all() -> None:
    room = WorkerLock()
    never = threading.Event()
    order: list[str] = []

    def alone() -> None:
        with room.hold_alone():
            order.append("alone")

    def shared() -> None:
        with room.share():
            order.append("later")

    with room.share():
        waiting = threading.Thread(target=alone)
        waiting.start()
        never.wait(0.02)
        order.append("shared")
    waiting.join(60)
    with room.hold_alone():
        later = threading.Thread(target=shared)
        later.start()
        never.wait(0.02)
        order.append("alone again")
    later.join(60)
    assert order == ["shared", "alone", "alone again", "later"]


def test_a_wait_that_is_interrupted_keeps_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    room = WorkerLock()
    with monkeypatch.context() as patched:
        patched.setattr(room._changed, "wait_for", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt), room.hold_alone():
            pass
    shared = threading.Thread(target=lambda: room.share().__enter__(), daemon=True)
    shared.start()
    shared.join(5)
    assert not shared.is_alive()
