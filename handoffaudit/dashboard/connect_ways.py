"""The ways to connect an agent: what to install and to run, what each way sees, and whether it can stop a handoff.

The code of each way is in files of `docs/examples/`, which name an example server and an example key.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from django.conf import settings

from handoffaudit.accounts.models import Scope

# The example files contain these values; the page replaces them with the reader's own.
EXAMPLE_SERVER: Final = "http://127.0.0.1:8000"
EXAMPLE_KEY: Final = "YOUR_KEY"

CLIENT: Final = "handoffaudit-client"


@dataclass(frozen=True, slots=True)
class Snippet:
    """Lines to copy: `name` is the id of their element, and `label` says what they are."""

    name: str
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """A file of `docs/examples/` with the sentence that stands before its lines."""

    file: str
    label: str


@dataclass(frozen=True, slots=True)
class Way:
    """A way to connect agents.

    `packages` are the distributions to install; without packages, the code itself names the server and the key, and
    installs what it needs. `sees`, `misses` and `gate` hold the sentences of the page. `guide` names a guide of Help.
    `delay` says when handoffs appear, if the server finds them only after it has answered the sender.
    """

    name: str
    label: str
    scopes: tuple[Scope, ...]
    code: tuple[Code, ...]
    sees: tuple[str, ...]
    misses: tuple[str, ...]
    gate: tuple[str, ...]
    packages: tuple[str, ...] = ()
    guide: str = "developer"
    delay: str = ""

    def fill(self, server: str, secret: str) -> list[Snippet]:
        """Return the lines to copy, with the address of the server and the secret of a key."""
        found = [Snippet("install", "Install, and name the server and the key", self._setup(server, secret))]
        codes = [
            Snippet(f"code-{number}", one.label, fill_example(one.file, server, secret))
            for number, one in enumerate(self.code, 1)
        ]
        return [*found, *codes] if self.packages else codes

    def _setup(self, server: str, secret: str) -> str:
        named = {"HANDOFFAUDIT_URL": server, "HANDOFFAUDIT_KEY": secret}
        lines = [f"export {name}={shlex.quote(value)}" for name, value in named.items()]
        return "\n".join([f"pip install {' '.join(self.packages)}", *lines])

    @property
    def from_checkout(self) -> str:
        """Return the argument of `pip install` for this way in a checkout of handoffaudit."""
        return "./client" if CLIENT in self.packages else "".join(self.packages).replace("handoffaudit", ".")

    @property
    def observes(self) -> bool:
        """Return whether this way captures what tools return."""
        return Scope.OBSERVE in self.scopes


def fill_example(file: str, server: str, secret: str) -> str:
    """Return the text of a file of `docs/examples/` with the address of a server and the secret of a key."""
    return _example(file).replace(EXAMPLE_SERVER, server).replace(EXAMPLE_KEY, secret)


@cache
def _example(file: str) -> str:
    return (Path(settings.WEB) / "docs" / "examples" / file).read_text(encoding="utf-8").rstrip()


def find_way(name: str) -> Way:
    """Return the way with this name, or the first way if none has this name."""
    return next((way for way in WAYS if way.name == name), WAYS[0])


_SEND: Final = (Scope.INGEST, Scope.READ)
_SEND_AND_OBSERVE: Final = (Scope.INGEST, Scope.OBSERVE, Scope.READ)

_AWAY: Final = (
    "While the server is away, handoffs pass without a verdict and are sent later. "
    'Client(on_unreachable="stop") stops them instead.'
)

_USE: Final = (
    "Resume: if state is approved, POST /api/v1/handoffs/ID/use, and start the next agent if the answer is 200. "
    "An approval works once."
)

WAYS: Final[Sequence[Way]] = (
    Way(
        name="python",
        label="Python",
        scopes=_SEND_AND_OBSERVE,
        packages=(CLIENT,),
        code=(Code("connect/python.py", "Run this"),),
        sees=(
            "Each handoff that your code passes to gate or send, with its data, context and evidence.",
            "What tools return, where your code passes it to tool_result.",
        ),
        misses=("Handoffs and tool calls that your code does not pass to the client.",),
        gate=(
            "Stop: the verdict of a blocked handoff is false, and verdict.why says why in a text for an LLM.",
            "Wait for a person: verdict.wait(300) waits for at most 300 seconds, and gate(…, wait=300) does the same.",
            "Resume: your code goes on where it waited.",
            _AWAY,
        ),
    ),
    Way(
        name="langgraph",
        label="LangGraph",
        scopes=_SEND_AND_OBSERVE,
        packages=(CLIENT, "langgraph"),
        guide="connect-langgraph",
        code=(
            Code("connect/langgraph_observe.py", "Observe a graph: this runs without an LLM"),
            Code("connect/langgraph_gate.py", "Stop handoffs between agents (with langchain and langgraph-swarm)"),
        ),
        sees=(
            "Handoff tools of langgraph-swarm and langgraph-supervisor, and nodes that return Command(goto=…).",
            "Data: the arguments of the handoff tool. If the tool has none, the last message and the state.",
            "What the other tools of the graph return.",
        ),
        misses=(
            "Edges of the graph without a Command: no agent decides there.",
            "Results of tools that ask an LLM: what an LLM says is not evidence.",
        ),
        gate=(
            "Stop: handoff_gate() stops a handoff tool before it runs. The LLM reads why, and can correct the handoff.",
            "Wait for a person: the gate waits for at most 300 seconds by default.",
            'Resume: handoff_gate(policy="interrupt") interrupts the graph, and Command(resume=…) continues it '
            "after the decision. This needs a checkpointer.",
            "Command(goto=…) calls no tool, so nothing can be stopped there: call Client.gate in the node.",
        ),
    ),
    Way(
        name="openai-agents",
        label="OpenAI Agents",
        scopes=_SEND_AND_OBSERVE,
        packages=(CLIENT, "openai-agents"),
        guide="connect-openai-agents",
        code=(Code("connect/openai_agents.py", "Run this, with your OPENAI_API_KEY set"),),
        sees=(
            "Each handoff between the agents of a run, with the Responses API and with chat completions.",
            "Data: the arguments of the handoff. If it has none, the last text that the LLM said or got.",
            "What function tools return.",
        ),
        misses=(
            "Runs with tracing disabled. The gate works all the same.",
            "Agents that another agent calls as tools: they are tool calls, not handoffs.",
        ),
        gate=(
            "Stop: gated(writer) asks before the writer takes over. A blocked handoff leaves the work with its sender, "
            "whose LLM reads why.",
            "Wait for a person: the run waits inside the handoff, for at most 300 seconds by default.",
            "Resume: the run goes on where it waited. It cannot end and be resumed later: the SDK has approvals for "
            "function tools only.",
        ),
    ),
    Way(
        name="pydantic-ai",
        label="Pydantic AI",
        scopes=_SEND_AND_OBSERVE,
        packages=(CLIENT, "pydantic-ai"),
        guide="connect-pydantic-ai",
        code=(Code("connect/pydantic_ai.py", "Name each tool that hands over, with its target agent"),),
        sees=(
            "Each call of a tool that is named with its target agent.",
            "Data: the arguments of the tool. If it has none, the last text that the agent said or got.",
            "What the other tools return.",
        ),
        misses=(
            "Agents that your program runs by itself, between two runs or in an output function.",
            "Results of tools that run an agent: what an LLM says is not evidence.",
        ),
        gate=(
            "Stop: a blocked handoff does not happen. The LLM reads why, and can correct the handoff.",
            "Wait for a person: the gate waits for at most 300 seconds by default.",
            'Resume: HandoffCapability(…, policy="interrupt") ends the run with DeferredToolRequests, and '
            "DeferredToolResults continues it after the decision.",
        ),
    ),
    Way(
        name="google-adk",
        label="Google ADK",
        scopes=_SEND_AND_OBSERVE,
        packages=(CLIENT, "google-adk"),
        guide="connect-google-adk",
        code=(Code("connect/google_adk.py", "Give the plug-in to the app"),),
        sees=(
            "Transfers to other agents, and agents that are called as tools.",
            "Data: for an agent tool, its arguments; for a transfer, the last text and the changes of the state.",
            "What the other tools return.",
        ),
        misses=("Workflow agents, such as SequentialAgent: no agent decides there.",),
        gate=(
            'Stop: the answer of a blocked transfer is {"error": …}. The LLM reads why, and can correct the handoff.',
            "Wait for a person: the run waits for at most 300 seconds by default.",
            "Resume: the run goes on where it waited. It cannot end and be resumed later.",
            "A transfer that a callback or a tool of your own sets is only observed.",
        ),
    ),
    Way(
        name="crewai",
        label="CrewAI",
        scopes=_SEND_AND_OBSERVE,
        packages=(CLIENT, "crewai"),
        guide="connect-crewai",
        code=(Code("connect/crewai.py", "Create one gate, and give its guardrail to tasks"),),
        sees=(
            "Work and questions that an agent delegates, and results of tasks on which another agent's task builds.",
            "What the other tools return.",
        ),
        misses=("Flows: their steps are your own code.", "What a coworker answers: what an LLM says is not evidence."),
        gate=(
            "Stop: a blocked delegation does not happen, and the LLM reads why. With the guardrail, the agent does a "
            "blocked task again.",
            "Wait for a person: the thread of the crew waits for at most 300 seconds by default.",
            "Resume: the crew goes on where it waited. It cannot end and be resumed later.",
        ),
    ),
    Way(
        name="strands",
        label="Strands Agents",
        scopes=_SEND_AND_OBSERVE,
        packages=(CLIENT, "strands-agents"),
        guide="connect-strands",
        code=(Code("connect/strands.py", "Give the hooks to each agent"),),
        sees=(
            "Handoffs of a swarm, and agents that are given as tools.",
            "Data: the message and the context of the handoff.",
            "What the other tools return.",
        ),
        misses=("Edges of a Graph: no agent decides there.",),
        gate=(
            "Stop: the tool is cancelled. The LLM reads why, and can correct the handoff.",
            "Wait for a person: the gate waits for at most 300 seconds by default.",
            'Resume: HandoffHooks(policy="interrupt") interrupts the swarm, and the answer to the interrupt continues '
            "it after the decision.",
        ),
    ),
    Way(
        name="a2a",
        label="A2A",
        scopes=_SEND,
        packages=(CLIENT, "'a2a-sdk[http-server]'"),
        guide="connect-a2a",
        code=(
            Code("connect/a2a_server.py", "On the server: wrap the executor of your agent"),
            Code("connect/a2a_client.py", "Or in the client: intercept its messages"),
        ),
        sees=(
            "Each message to an agent, in the spelling of 1.x and 0.3.",
            "Data: the text or the object of the message; of files, the names.",
        ),
        misses=("What an agent answers.", "Tool results: add the plug-in of the agent's framework."),
        gate=(
            "Stop: a rejected message is answered with a rejected task, whose message says why.",
            "Wait for a person: the task requires input until a person has decided.",
            "Resume: a further message with the same taskId continues the task after the decision.",
        ),
    ),
    Way(
        name="curl",
        label="curl",
        scopes=_SEND,
        code=(Code("connect/curl.sh", "Paste this into a terminal"),),
        sees=("Each handoff that you send.", "Tool results, if you send them with a key with the scope observe."),
        misses=("Everything that you do not send.",),
        gate=(
            "Stop: Prefer: wait=10 waits at most 10 seconds for the verdict. Start the next agent if state is "
            "accepted.",
            "Wait for a person: GET /api/v1/handoffs/ID with Prefer: wait=60 answers after the decision, or after 60 "
            "seconds.",
            _USE,
        ),
    ),
    Way(
        name="typescript",
        label="TypeScript",
        scopes=_SEND,
        code=(
            Code("connect/typescript.ts", "Save this as handoff.mts, and run it with Deno, Bun or Node.js 22 or later"),
        ),
        sees=(
            "Each handoff that your code sends.",
            "Tool results, if you send them with a key with the scope observe.",
        ),
        misses=("Everything that your code does not send.",),
        gate=(
            "Stop: Prefer: wait=10 waits at most 10 seconds for the verdict. Start the next agent if state is "
            "accepted.",
            "Wait for a person: fetch /api/v1/handoffs/ID with Prefer: wait=60, which answers after the decision, or "
            "after 60 seconds.",
            _USE,
            "While the server is away, fetch fails: your code decides, and sends the handoff again later.",
        ),
    ),
    Way(
        name="mcp",
        label="MCP",
        scopes=_SEND,
        packages=("'handoffaudit[mcp]'",),
        guide="mcp",
        code=(
            Code("connect/mcp.sh", "Add it to Claude Code"),
            Code("connect/mcp.json", "Or to Cursor or Claude Desktop, in their configuration"),
        ),
        sees=("Each handoff that the LLM submits with a tool.",),
        misses=("Handoffs for which the LLM calls no tool.", "Tool results."),
        gate=(
            "Stop: the tool answers that the next agent must not start, and why. The LLM decides what it does then.",
            "Wait for a person: get_verdict waits for at most 50 seconds at a time.",
            "Resume: get_verdict with start=true uses the approval, which works once.",
            "While the server is away, the tools answer with an error, and nothing is sent later.",
        ),
    ),
    Way(
        name="claude-code",
        label="Claude Code",
        scopes=_SEND_AND_OBSERVE,
        packages=("handoffaudit",),
        guide="connect-claude-code",
        code=(
            Code(
                "hooks/settings-command.json",
                "Put this into .claude/settings.json of your project, and start Claude Code",
            ),
            Code("hooks/settings-tool-results.json", "Or this, which also sends what tools return, as evidence"),
        ),
        sees=(
            "Each task that Claude Code hands to a subagent, and what the subagent answers.",
            "The end of subagents.",
            "With the second settings: what tools return, such as the output of commands and the text of files.",
        ),
        misses=(
            "Work within one agent, and agents that other programs start.",
            "Results that an LLM writes, such as those of WebFetch: they are not evidence.",
        ),
        gate=(
            "Stop: a rejected task is denied before the subagent starts. Claude reads why.",
            "Wait for a person: for a held task, Claude Code asks its user.",
            "Resume: a decision under Review does not continue Claude Code by itself.",
            "While the server is away, tasks pass, and the events are sent later.",
        ),
    ),
    Way(
        name="opentelemetry",
        label="OpenTelemetry",
        scopes=_SEND_AND_OBSERVE,
        guide="connect-opentelemetry",
        delay="The handoffs of a trace appear when it has been quiet for 10 seconds, or sooner if it is complete. If "
        "none appears, the server found no handoff in the spans.",
        code=(
            Code("connect/opentelemetry.sh", "Install the exporter, and name the server and the key"),
            Code("connect/opentelemetry.py", "Run this: it sends a first trace. Its handoff appears within 15 seconds"),
        ),
        sees=(
            "Handoffs in the traces that your framework or its instrumentation writes: no code of ours is needed.",
            "Data, where the spans have the content of tool calls.",
            "What tools return.",
        ),
        misses=(
            "Frameworks whose spans name no agents.",
            "Source or target agents that no span names: they are inferred, and the page of the handoff says how.",
        ),
        gate=(
            "Traces come after the fact: they stop nothing, and nothing waits for the verdict.",
            "To stop handoffs, use one of the other ways.",
        ),
    ),
)
