"""Scripted local models for each framework: the OpenAI SDK runs on a transport without a network."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Say:
    """What a scripted model says in one turn, and which tool it calls, if any."""

    text: str = ""
    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)


# A line of a script, or a function that returns the line when its turn comes.
Line = Say | Callable[[], Say]


def chat_model(*script: Line) -> Any:
    """Return a LangChain chat model that says one line of the script per turn; `told` has its inputs."""
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class ScriptedModel(BaseChatModel):
        lines: Any
        told: list[Any] = []

        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
            return self

        def _generate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
            self.told.append(messages)
            line = _evaluate(next(self.lines))
            calls = [{"name": line.tool, "args": line.arguments, "id": _call_id()}] if line.tool else []
            return ChatResult(generations=[ChatGeneration(message=AIMessage(line.text, tool_calls=calls))])

    return ScriptedModel(lines=iter(script), told=[])


def function_model(*script: Line) -> Any:
    """Return a model for Pydantic AI that says one line of the script per turn; `told` has its inputs."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    lines, told = iter(script), []

    def answer(messages: list[Any], _: Any) -> ModelResponse:
        told.append(list(messages))
        line = _evaluate(next(lines))
        parts: list[Any] = [TextPart(line.text)] if line.text else []
        return ModelResponse(parts=[*parts, ToolCallPart(line.tool, line.arguments)] if line.tool else parts)

    model = FunctionModel(answer)
    model.told = told
    return model


def adk_model(*script: Line) -> Any:
    """Return a model for Google ADK that says one line of the script per turn; `told` has its inputs."""
    from google.adk.models import BaseLlm, LlmResponse
    from google.genai import types

    class ScriptedLlm(BaseLlm):
        lines: Any
        told: list[Any] = []

        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            self.told.append(list(llm_request.contents))
            line = _evaluate(next(self.lines))
            parts = [types.Part(text=line.text)] if line.text else []
            if line.tool:
                call = types.FunctionCall(id=_call_id(), name=line.tool, args=line.arguments)
                parts.append(types.Part(function_call=call))
            yield LlmResponse(content=types.Content(role="model", parts=parts))

    return ScriptedLlm(model="scripted", lines=iter(script), told=[])


def strands_model(*script: Line) -> Any:
    """Return a model for Strands Agents that says one line of the script per turn; `told` has its inputs."""
    from strands.models import Model

    class ScriptedModel(Model):
        def __init__(self) -> None:
            self.lines, self.told = iter(script), []

        def update_config(self, **_: Any) -> None: ...

        def get_config(self) -> dict[str, Any]:
            return {"model_id": "scripted"}

        async def structured_output(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError
            yield

        async def stream(self, messages: list[Any], *_: Any, **__: Any) -> Any:
            self.told.append(json.loads(json.dumps(messages)))
            line = _evaluate(next(self.lines))
            yield {"messageStart": {"role": "assistant"}}
            if line.text:
                yield {"contentBlockStart": {"start": {}}}
                yield {"contentBlockDelta": {"delta": {"text": line.text}}}
                yield {"contentBlockStop": {}}
            if line.tool:
                yield {"contentBlockStart": {"start": {"toolUse": {"name": line.tool, "toolUseId": _call_id()}}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(line.arguments)}}}}
                yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "tool_use" if line.tool else "end_turn"}}

    return ScriptedModel()


def crewai_model(*script: Line, native: bool = True) -> Any:
    """Return an LLM for CrewAI that says one line of the script per turn; `told` has its inputs.

    With `native`, it calls tools as functions; otherwise in its text.
    """
    from crewai import BaseLLM

    class ScriptedLLM(BaseLLM):
        def call(self, messages: Any, tools: Any = None, **_: Any) -> Any:
            told.append(json.loads(json.dumps(messages, default=str)))
            line = _evaluate(next(lines))
            if not line.tool:
                return line.text if native else f"Thought: I know it.\nFinal Answer: {line.text}"
            if native:
                function = {"name": line.tool, "arguments": json.dumps(line.arguments)}
                return [{"id": _call_id(), "type": "function", "function": function}]
            return f"Thought: I ask.\nAction: {line.tool}\nAction Input: {json.dumps(line.arguments)}"

        def supports_function_calling(self) -> bool:
            return native

    lines, told = iter(script), []
    model = ScriptedLLM(model="scripted")
    object.__setattr__(model, "told", told)
    return model


def openai_model(shape: str, *script: Line) -> Any:
    """Return the SDK's own model for `chat` or `responses`; its requests are answered by the script.

    The bodies of the requests are in `told` of the model.
    """
    import httpx2
    from agents import OpenAIChatCompletionsModel, OpenAIResponsesModel
    from openai import AsyncOpenAI

    lines, told = iter(script), []

    def answer(request: Any) -> Any:
        told.append(json.loads(request.content))
        body = (_chat if shape == "chat" else _response)(_evaluate(next(lines)))
        if told[-1].get("stream"):
            return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=_stream(body))
        return httpx2.Response(200, json=body)

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    client = AsyncOpenAI(api_key="none", base_url="http://models.invalid/v1", http_client=http)
    model = (OpenAIChatCompletionsModel if shape == "chat" else OpenAIResponsesModel)("scripted", client)
    model.told = told
    return model


def _evaluate(line: Line) -> Say:
    return line if isinstance(line, Say) else line()


def _call_id() -> str:
    return f"call_{next(_numbers):06d}"


def _chat(line: Say) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": line.text or None}
    if line.tool:
        function = {"name": line.tool, "arguments": json.dumps(line.arguments)}
        message["tool_calls"] = [{"id": _call_id(), "type": "function", "function": function}]
    choice = {"index": 0, "finish_reason": "tool_calls" if line.tool else "stop", "message": message}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    common = {"id": "chat", "object": "chat.completion", "created": 1, "model": "scripted"}
    return {**common, "choices": [choice], "usage": usage}


def _response(line: Say) -> dict[str, Any]:
    return {
        "id": f"resp_{next(_numbers)}",
        "object": "response",
        "created_at": 1,
        "model": "scripted",
        "status": "completed",
        "output": list(_items(line)),
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        },
    }


def _stream(body: dict[str, Any]) -> bytes:
    """Return the events of a stream that tells the whole answer at once."""
    if body["object"] == "response":
        event = json.dumps({"type": "response.completed", "sequence_number": 1, "response": body})
        return f"event: response.completed\ndata: {event}\n\n".encode()
    message = body["choices"][0]["message"]
    calls = [{**call, "index": index} for index, call in enumerate(message.get("tool_calls", []))]
    choice = {"index": 0, "delta": {**message, "tool_calls": calls or None}, "finish_reason": "stop"}
    chunk = json.dumps({**body, "object": "chat.completion.chunk", "choices": [choice]})
    return f"data: {chunk}\n\ndata: [DONE]\n\n".encode()


def _items(line: Say) -> Iterator[dict[str, Any]]:
    if line.text:
        content = [{"type": "output_text", "text": line.text, "annotations": []}]
        common = {"id": f"msg_{next(_numbers)}", "type": "message", "role": "assistant", "status": "completed"}
        yield {**common, "content": content}
    if line.tool:
        common = {"id": f"fc_{next(_numbers)}", "type": "function_call", "status": "completed", "call_id": _call_id()}
        yield {**common, "name": line.tool, "arguments": json.dumps(line.arguments)}
