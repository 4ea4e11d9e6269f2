"""The question for a corrected document."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from handoffaudit.validation.asking.answers import answered_object
from handoffaudit.validation.asking.fencing import as_text, fenced
from handoffaudit.validation.asking.prompting import Prompt, instructions, shipped
from handoffaudit.validation.asking.question import Question, Role, Use
from handoffaudit.validation.issues import Issue

MAX_TOKENS = 8192
# a document that is longer would come back cut
LONGEST_DOCUMENT = 20_000
_SCHEMA: Final[Mapping[str, Any]] = {"type": "object"}


def question(
    document: Mapping[str, Any], issues: Iterable[Issue], asked: Prompt | None = None, *, role: Role = Role.FAST
) -> Question:
    chosen = asked or shipped(Use.REPAIR)
    found = [
        {"field": issue.field_path, "code": issue.code, "message": issue.message, "hint": issue.hint}
        for issue in issues
    ]
    return Question(
        use=Use.REPAIR,
        role=role,
        prompt=chosen.name,
        instructions=instructions(Use.REPAIR, chosen),
        content="\n\n".join(
            (fenced("document", as_text(document, LONGEST_DOCUMENT)), fenced("findings", as_text(found)))
        ),
        schema=_SCHEMA,
        read=answered_object,
        max_tokens=MAX_TOKENS,
    )
