"""Tests of the question that is sent for each use, and of reading its answer."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handoffaudit.validation.issues import Severity, make
from handoffaudit.validation.layers import CATALOGUE
from handoffaudit.validation.prompts import layer_questions, question
from handoffaudit.validation.prompts.layer_questions import Doubt, Doubted, Grounding, Objective
from handoffaudit.validation.prompts.question import (
    MalformedAnswer,
    Prompt,
    Role,
    Use,
    build_instructions,
    default_prompt,
    parse_answer,
)
from handoffaudit.validation.repair import by_model

CUT = "[truncated]"


def between(content: str, tag: str) -> str:
    return content.split(f"<{tag}>\n")[1].split(f"\n</{tag}>", maxsplit=1)[0]


@pytest.mark.parametrize("use", Use)
def test_shipped_prompts_have_a_version_and_ask_for_json(use: Use) -> None:
    prompt = default_prompt(use)
    assert re.fullmatch(rf"{use}-\d+", prompt.name)
    told = build_instructions(use, prompt)
    assert told.startswith(prompt.text)
    assert "one JSON object and nothing else" in told


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Replace the folder of the shipped texts."""
    monkeypatch.setattr(question, "_TEXTS", tmp_path)
    for cached in (question.prompt, question._newest_numbers):
        cached.cache_clear()
    yield tmp_path
    for cached in (question.prompt, question._newest_numbers):
        cached.cache_clear()


@pytest.mark.parametrize("newer", ["grounding-10.txt", "grounding-answer-10.txt", "frame-10.txt"])
def test_the_newest_text_is_sent_and_gives_the_prompt_its_version(texts: Path, newer: str) -> None:
    for name in ("grounding-1.txt", "grounding-9.txt", "grounding-answer-1.txt", "frame-1.txt"):
        (texts / name).write_text("old")
    (texts / newer).write_text("new")
    prompt = default_prompt(Use.GROUNDING)
    assert prompt.name == "grounding-10"
    assert build_instructions(Use.GROUNDING, prompt).split("\n\n").count("new") == 1


@pytest.mark.parametrize(
    ("length", "is_cut"), [(9_998, False), (9_999, True), (50_000, True)], ids=["fits", "one too many", "far too many"]
)
def test_objective_and_deliverable_are_cut_at_10000_characters_each(length: int, is_cut: bool) -> None:
    content = layer_questions.objective_question("a" * length, "b" * length).content
    for tag in ("objective", "deliverable"):
        sent = between(content, tag)
        assert len(sent) == 10_000
        assert sent.endswith(CUT) is is_cut


def test_context_evidence_data_and_output_are_cut_alike() -> None:
    long = {"text": "word " * 10_000}
    asked = layer_questions.grounding_question(long, long, [long])
    opinion = layer_questions.opinion_question(long, long, [long])
    for content, tags in ((asked.content, ("context", "evidence", "data")), (opinion.content, ("output", "evidence"))):
        for tag in tags:
            sent = between(content, tag)
            assert 9_000 < len(sent) <= 10_000
            assert sent.endswith(CUT)


def test_what_there_is_not_is_not_sent() -> None:
    assert (
        layer_questions.grounding_question({"a": 1}, {}, []).content
        == 'No context is given.\n\n<data>\n{"a":1}\n</data>'
    )
    assert layer_questions.opinion_question({"a": 1}, {}, []).content == '<output>\n{"a":1}\n</output>'


def test_a_document_to_repair_goes_with_its_findings() -> None:
    issue = make(CATALOGUE["structure.empty"], location=("data", "text"), message="It is empty.")
    asked = by_model.repair_question({"data": {"text": "", "password": "hunter2"}}, [issue])
    assert between(asked.content, "document") == '{"data":{"text":"","password":"[masked]"}}'
    (finding,) = json.loads(between(asked.content, "findings"))
    assert (finding["field"], finding["code"], finding["message"]) == ("data.text", "structure.empty", "It is empty.")
    assert asked.read('{"data": 1}') == {"data": 1}
    assert asked.max_tokens > layer_questions.opinion_question({}, {}, []).max_tokens


def test_a_role_and_a_prompt_of_ones_own() -> None:
    own = Prompt("own-3", "Look closely.")
    for asked in (
        layer_questions.grounding_question({}, {}, [], own, role=Role.CAREFUL),
        layer_questions.objective_question("", "", own, role=Role.CAREFUL),
        layer_questions.opinion_question({}, {}, [], own, role=Role.CAREFUL),
        by_model.repair_question({}, [], own, role=Role.CAREFUL),
    ):
        assert (asked.prompt, asked.role) == ("own-3", Role.CAREFUL)
        assert asked.instructions.startswith("Look closely.\n\n")


def test_the_schemas_of_answers_are_what_structured_output_takes() -> None:
    def objects(schema: Any) -> list[dict[str, Any]]:
        inner = [one for value in schema.values() if isinstance(value, dict) for one in objects(value)]
        return [schema, *inner] if schema.get("type") == "object" else inner

    for asked in (
        layer_questions.grounding_question({}, {}, []),
        layer_questions.objective_question("", ""),
        layer_questions.opinion_question({}, {}, []),
    ):
        for one in objects(dict(asked.schema)):
            assert one["additionalProperties"] is False
            assert one["required"] == list(one["properties"])


WELL = '{"a": [1, "é"]}'


@pytest.mark.parametrize(
    "text",
    [
        WELL,
        f"\n  {WELL}\n",
        f"```json\n{WELL}\n```",
        f"```\n{WELL}\n```",
        f"  ```JSON  \n{WELL}\n```\n\n",
        f"```json\n\n{WELL}```",
        f"```json\r\n{WELL}\r\n```",
        "\ufeff" + WELL,
    ],
)
def test_bare_or_in_a_fence(text: str) -> None:
    assert parse_answer(text) == {"a": [1, "é"]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "```json\n```",
        "```",
        f"Here you are: {WELL}",
        f"{WELL} I hope that helps.",
        f"```json\n{WELL}",
        f"{WELL}\n```",
        f"```json\n{WELL}\n```\n```json\n{WELL}\n```",
        f"``` some words\n{WELL}\n```",
        f"~~~\n{WELL}\n~~~",
        "{'a': 1}",
        '{"a": 1,}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1} // done',
        "[]",
        '"text"',
        "true",
        None,
        b"{}",
        {"a": 1},
        "{" * 1_000_000,
        '{"a": "' + "x" * 200_000 + '"}',
        "```json\n" + " " * 190_000 + "x",
        "```json\n" + "`" * 190_000,
        "```json\n" + "\n" * 190_000 + "```x",
    ],
    ids=lambda text: ascii(text)[:40],
)
def test_anything_else_is_malformed(text: Any) -> None:
    with pytest.raises(MalformedAnswer) as raised:
        parse_answer(text)
    assert str(raised.value).endswith((".", "…"))
    assert len(str(raised.value)) < 1000


def test_what_a_grounding_answer_says() -> None:
    issues = [{"field": "a.b", "kind": "Fabricated", "quote": "q", "reason": "r"}, "A sentence.", 7]
    assert layer_questions.read_grounding(json.dumps({"valid": False, "issues": issues})) == Grounding(
        False,
        (
            Doubted(Doubt.FABRICATED, "a.b", "q", "r"),
            Doubted(Doubt.UNSUPPORTED, "", "", "A sentence."),
            Doubted(Doubt.UNSUPPORTED, "", "", "7"),
        ),
    )
    assert layer_questions.read_grounding('{"valid": true}') == Grounding(True)
    assert layer_questions.read_grounding('{"valid": true, "issues": null}') == Grounding(True)


@pytest.mark.parametrize("status", ["PASSED", "passed", " Passed "])
def test_status_words_in_any_case(status: str) -> None:
    told = {"status": status, "reasoning": "R.", "confidence": 1}
    assert layer_questions.read_objective(json.dumps(told)) == Objective(True, "R.", 1.0)
    assert layer_questions.read_objective(json.dumps({**told, "status": "failed", "reasoning": 7})) == Objective(
        False, "", 1.0
    )


def test_what_a_critique_says() -> None:
    opinion = layer_questions.read_opinion(
        '{"overall_score": 1, "issues": [{"severity": "ERROR", "message": "m"}], "reasoning": "r"}'
    )
    assert (opinion.score, opinion.reasoning) == (1.0, "r")
    assert [(one.code, one.message, one.severity) for one in opinion.remarks] == [("issue", "m", Severity.ERROR)]
