"""Parts that the plug-ins share."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeAlias

    from handoffaudit_client.async_client import AsyncClient
    from handoffaudit_client.client import Client
    from handoffaudit_client.verdict import Verdict

    AnyClient: TypeAlias = Client | AsyncClient

Key = TypeVar("Key")
Value = TypeVar("Value")

# By default, a memory of runs, spans or handoffs has at most this many entries.
MOST_REMEMBERED = 10_000

_POLL_SECONDS = 1.0

_NAMESPACE = "5f0c1b1e-8a53-4c0e-9d57-2d3a8f6f7f10"

_lock = threading.Lock()
_shared: list[Client] = []


class Memory(Generic[Key, Value]):
    """A dict that forgets its oldest entries. Threads may share it."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._entries: dict[Key, Value] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __setitem__(self, key: Key, value: Value) -> None:
        with self._lock:
            self._entries.pop(key, None)
            self._entries[key] = value
            while len(self._entries) > self._most:
                del self._entries[next(iter(self._entries))]

    def get(self, key: Key) -> Value | None:
        return self._entries.get(key)

    def pop(self, key: Key) -> Value | None:
        with self._lock:
            return self._entries.pop(key, None)


# Ids of handoffs that a gate of this process has submitted: plug-ins that only observe do not send them again.
gated: Memory[str, bool] = Memory()


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package, which imports the module of a name at its first use.

    `homes` has the module of each name.
    """

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return load


def client_of(given: AnyClient | None) -> Client:
    """Return the given client, the `Client` of an `AsyncClient`, or else the client that all plug-ins share.

    Raises `ValueError` as `Client` does.
    """
    if given is not None:
        return given.client if hasattr(given, "client") else given
    with _lock:
        if not _shared:
            from handoffaudit_client.client import Client

            _shared.append(Client())
        return _shared[0]


def handoff_id_of(trace: str, call_id: str) -> str:
    """Return the id of the handoff that a tool call asks for.

    The id is the same in each process, so that a resumed or repeated run submits the same handoff.
    """
    import uuid

    # An id from JSON can have half of a surrogate pair, which UTF-8 cannot encode.
    name = f"{trace}\n{call_id}".encode("utf-8", "replace").decode()
    return str(uuid.uuid5(uuid.UUID(_NAMESPACE), name))


async def wait_for_decision(verdict: Verdict, timeout: float) -> Verdict:
    """Wait at most `timeout` seconds for the decision of a person; return the verdict, which may still be open.

    No thread waits meanwhile, because asyncio has few threads and needs them to look up addresses.
    """
    import asyncio
    import time

    until = time.monotonic() + timeout
    while verdict.is_open and (left := until - time.monotonic()) > 0:
        await asyncio.sleep(min(left, _POLL_SECONDS))
        verdict = await asyncio.to_thread(verdict.wait, 0.0)
    return verdict


def reason_of(arguments: Any, default: str | None) -> str | None:
    """Return the reason that an LLM gave among the arguments of its handoff, else the default."""
    given = arguments if isinstance(arguments, dict) else {}
    found = (given.get(name) for name in ("handoff_reason", "reason"))
    return next((one for one in found if isinstance(one, str) and one.strip()), default)
