"""Commands that send a first handoff, ready to paste: for a shell, for PowerShell, and as Python."""

import json
from dataclasses import dataclass
from typing import Any

# Where no key was made on this page, the place that one goes into.
NO_SECRET = "YOUR_KEY"  # noqa: S105 -- it is none
LONG_CHAIN = ("intake", "triage", "planner", "researcher", "checker", "planner-2")


@dataclass(frozen=True, slots=True)
class Command:
    """`name` is the element's id, `label` whom it is for."""

    name: str
    label: str
    text: str


def first(server: str, secret: str, tenant_slug: str) -> list[Command]:
    """One handoff that is accepted, three ways."""
    body = _body(tenant_slug, ["planner"])
    return [
        Command("first-curl", "Shell: Linux, macOS, Git Bash", _curl(server, secret, body)),
        Command("first-powershell", "Windows: PowerShell", _powershell(server, secret, body)),
        Command("first-python", "Python, nothing to install", _python(server, secret, body)),
    ]


def one_to_decide(server: str, secret: str, tenant_slug: str) -> Command:
    """One that waits for a person, because many agents had it."""
    return Command("held-curl", "", _curl(server, secret, _body(tenant_slug, list(LONG_CHAIN))))


def _body(tenant_slug: str, chain: list[str]) -> dict[str, Any]:
    return {
        "document": {
            "tenant_id": tenant_slug,
            "source_agent_id": chain[-1],
            "target_agent_id": "writer",
            "call_chain": chain,
            "handoff_type": "status_update",
            "data": {"summary": "Three suppliers deliver within a week."},
        }
    }


def _curl(server: str, secret: str, body: dict[str, Any]) -> str:
    return (
        f"curl '{server}/api/v1/handoffs' \\\n"
        f"  -H 'Authorization: Bearer {secret}' \\\n"
        f"  -H 'Content-Type: application/json' -H 'Prefer: wait=10' \\\n"
        f"  -d '{json.dumps(body, indent=2)}'"
    )


def _powershell(server: str, secret: str, body: dict[str, Any]) -> str:
    return (
        f"Invoke-RestMethod {server}/api/v1/handoffs -Method Post -ContentType application/json `\n"
        f"  -Headers @{{ Authorization = 'Bearer {secret}'; Prefer = 'wait=10' }} `\n"
        f"  -Body '{json.dumps(body, indent=2)}'"
    )


def _python(server: str, secret: str, body: dict[str, Any]) -> str:
    return (
        "import json, urllib.request\n\n"
        f"handoff = {json.dumps(body, indent=4)}\n"
        "request = urllib.request.Request(\n"
        f'    "{server}/api/v1/handoffs",\n'
        "    data=json.dumps(handoff).encode(),\n"
        f'    headers={{"Authorization": "Bearer {secret}", "Prefer": "wait=10",\n'
        '             "Content-Type": "application/json"},\n'
        ")\n"
        "print(urllib.request.urlopen(request).read().decode())"
    )
