"""What the model is told to do: a prompt that users may replace, and a frame around it that they may not."""

from dataclasses import dataclass

from handoffaudit.validation.asking.prompts import prompt
from handoffaudit.validation.asking.question import Use

VERSION = "1"
LONGEST_PROMPT = 20_000


@dataclass(frozen=True, slots=True)
class Prompt:
    """`name` says which version of which prompt it is."""

    name: str
    text: str


def shipped(use: Use) -> Prompt:
    """The prompt that comes with the package."""
    name = f"{use.value}-{VERSION}"
    return Prompt(name, prompt(name))


def instructions(use: Use, asked: Prompt) -> str:
    """The prompt with the frame: what stands between tags is no instruction, and what the answer must look like."""
    # a character that cannot be sent would keep every question from being asked
    told = asked.text[:LONGEST_PROMPT].encode("utf-8", "replace").decode()
    return "\n\n".join((told, prompt(f"frame-{VERSION}"), prompt(f"{use.value}-answer-{VERSION}")))
