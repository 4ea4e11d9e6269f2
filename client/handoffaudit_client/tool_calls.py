"""Recording of tool calls."""

from __future__ import annotations

import functools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Function = TypeVar("Function", bound=Callable[..., Any])


class ToolCall:
    """A tool call whose result is not recorded yet.

    As a decorator, the object records the arguments and the result of each call of a function, also of an `async`
    function. If `arguments` was given, the object records these in place of the arguments of the call. As a context
    manager, the object records `result` if the block sets `result`. A call that raises an error is not recorded.
    """

    def __init__(self, record: Callable[..., None], tool: str, **known: Any) -> None:
        self._record = record
        self._tool = tool
        self._known = known
        self._result: Any = None
        self._has_result = False

    @property
    def result(self) -> Any:
        return self._result

    @result.setter
    def result(self, result: Any) -> None:
        self._result = result
        self._has_result = True

    def __enter__(self) -> ToolCall:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._has_result:
            self._record(self._tool, self._result, **self._known)

    async def __aenter__(self) -> ToolCall:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.__exit__(kind)

    def __call__(self, function: Function) -> Function:
        """Return a wrapper of the function that records each call that returns.

        Raises `TypeError` for a generator function, which returns before it has the result of the tool.
        """
        import inspect

        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"{self._tool!r} is a generator, whose result is not known when it returns: record it with "
                "`with client.tool_result(…) as call:` instead of the decorator"
            )
        signature = _signature_of(function)

        def record(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            known = self._known
            if known.get("arguments") is None:
                known = {**known, "arguments": _arguments(signature, args, kwargs)}
            self._record(self._tool, result, **known)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def later(*args: Any, **kwargs: Any) -> Any:
                result = await function(*args, **kwargs)
                record(args, kwargs, result)
                return result

            return later  # type: ignore[return-value]

        @functools.wraps(function)
        def at_once(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            record(args, kwargs, result)
            return result

        return at_once  # type: ignore[return-value]


def _signature_of(function: Callable[..., Any]) -> Any:
    import inspect

    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _arguments(signature: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by their names, without `self` and `cls`.

    If the names are unknown, positional arguments are named by their numbers, from 1.
    """
    try:
        bound = dict(signature.bind(*args, **kwargs).arguments)
    except (AttributeError, TypeError):
        bound = {**{str(number): one for number, one in enumerate(args, 1)}, **kwargs}
    return {name: one for name, one in bound.items() if name not in ("self", "cls")}
