"""Tests of the order of compression, and of its end."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
import pytest

from handoffaudit.validation.json_text import compact, sha256_hex
from handoffaudit.validation.repair.compress import Compressed, compress, count, cut_chain
from handoffaudit.validation.repair.edit import Budget, cut, key_phrases, whole_sentences, within
from handoffaudit.validation.tokenizers import CharacterCounter, TokenCounter, default_counter
from tests.elapsed import grows_linearly
from tests.scale import size
from tests.validation.support import codes, judge, payload, universal

SENTENCE = "The supplier in Lyon answered on Monday and named a price of 12.40 EUR. "
LONG = (SENTENCE * 20).strip()
DROPPED = [
    "handoff.expires_at",
    "handoff.target.invocation",
    "handoff.target.expected_phase",
    "handoff.context.original_prompt",
    "handoff.context.success_criteria",
    "handoff.payload.session",
    "handoff.tracing.tags",
]


class Folder:
    """A folder that holds the written files by path."""

    def __init__(self, error: Exception | None = None) -> None:
        self.files: dict[str, bytes] = {}
        self.error = error

    def write(self, path: str, content: bytes) -> None:
        if self.error:
            raise self.error
        self.files[path] = content


def full(**sections: Any) -> dict[str, Any]:
    """Return a universal handoff with everything in it that compression removes."""
    document = universal(
        expires_at="2026-02-02T08:00:00Z",
        target={"invocation": "/write", "expected_phase": "drafting"},
        context={
            "summary": "Prices are 12.40, 13.95, 11.20. " * 15,
            "original_prompt": LONG,
            "success_criteria": ["every figure has a source"],
        },
        payload={
            "working": {"notes": LONG * 2, "table": [{"text": LONG}, "short"]},
            "session": {"artifacts": [], "state": {"log": LONG}},
        },
        tracing={"tags": {"team": "buying", "run": "17"}},
    )
    for name, change in sections.items():
        document["handoff"][name].update(change)
    return document


def pressed(document: dict[str, Any], limit: int, form: str = "universal", **given: Any) -> Compressed:
    before = copy.deepcopy(document)
    budget = Budget(limit, default_counter(), given.pop("chain_length", 10))
    found = compress(document, form, budget, **given)
    assert document == before
    assert found.tokens == count(found.document, default_counter())
    assert found.fits is (found.tokens <= limit)
    return found


def paths(found: Compressed) -> list[str]:
    return [change.field_path for change in found.changes]


def test_within_the_budget_nothing_changes() -> None:
    document = full()
    found = pressed(document, 5000)
    assert found.document is document
    assert found.changes == ()


def test_the_order_to_its_end() -> None:
    found = pressed(full(), 10)
    assert paths(found) == [
        *DROPPED,
        "handoff.context.summary",
        "handoff.payload.working.notes",
        "handoff.payload.working.table[0].text",
        "handoff.meta.token_count",
    ]
    assert not found.fits
    working = found.document["handoff"]["payload"]["working"]
    assert len(working["notes"]) <= 500
    assert working["notes"].endswith("12.40 EUR. ...")
    assert working["table"][1] == "short"
    assert default_counter().count(found.document["handoff"]["context"]["summary"]) < 100


def test_it_stops_as_soon_as_the_budget_is_met() -> None:
    order = paths(pressed(full(), 10))[:-1]
    limit, taken = count(full(), default_counter()) - 1, 0
    while taken < len(order):
        found = pressed(full(), limit)
        steps = paths(found)[:-1]
        assert found.fits or steps == order
        assert steps == order[: len(steps)]
        assert len(steps) > taken
        # one token less takes one more step at least, so these were not too many
        limit, taken = found.tokens - 1, len(steps)


def test_what_is_kept_is_as_it_was() -> None:
    document = full()
    found = pressed(document, count(document, default_counter()) - 1)
    assert paths(found) == ["handoff.expires_at", "handoff.meta.token_count"]
    assert "expires_at" not in found.document["handoff"]
    assert found.document["handoff"]["payload"] == document["handoff"]["payload"]


def test_the_session_is_stored_where_files_can_be() -> None:
    folder, document = Folder(), full()
    found = pressed(document, 10, store=folder)
    path = "work/collaboration/handoffs/session-context.json"

    assert orjson.loads(folder.files[path]) == document["handoff"]["payload"]["session"]
    assert found.document["handoff"]["payload"]["references"]["files"] == [
        {"path": path, "description": "payload.session of this handoff", "relevance": "important"}
    ]
    assert "session" not in found.document["handoff"]["payload"]
    assert "structure.missing_field" not in codes(judge(found.document))


def test_null_references_are_no_obstacle() -> None:
    folder = Folder()
    found = pressed(full(payload={"references": None}), 10, store=folder)
    assert list(folder.files) == ["work/collaboration/handoffs/session-context.json"]
    assert [entry["path"] for entry in found.document["handoff"]["payload"]["references"]["files"]] == [*folder.files]


def test_references_that_are_there_stay() -> None:
    document = full(payload={"references": {"files": [{"path": "docs/brief.md"}], "urls": []}})
    references = pressed(document, 10, store=Folder()).document["handoff"]["payload"]["references"]
    assert [entry["path"] for entry in references["files"]] == [
        "docs/brief.md",
        "work/collaboration/handoffs/session-context.json",
    ]
    assert references["urls"] == []


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("embedded null byte")])
def test_a_session_that_cannot_be_stored_is_dropped(error: Exception) -> None:
    document = full()
    found = pressed(document, 10, store=Folder(error))
    assert found.document == pressed(document, 10).document
    (why,) = [change.why for change in found.changes if change.field_path == "handoff.payload.session"]
    said = error.args[-1]
    assert why == f"dropped to meet the token budget; it could not be stored: {said}"


def test_nothing_is_stored_where_the_budget_is_met_before() -> None:
    folder, document = Folder(), full()
    pressed(document, count(document, default_counter()) - 1, store=folder)
    assert folder.files == {}


@pytest.mark.parametrize("references", [[], {"files": "docs/brief.md"}])
def test_a_session_that_nothing_could_refer_to_is_dropped(references: Any) -> None:
    folder = Folder()
    found = pressed(full(payload={"references": references}), 10, store=folder)
    assert folder.files == {}
    assert "handoff.payload.session" in paths(found)


def test_a_summarizer_is_asked_and_checked() -> None:
    class Model:
        def __init__(self, answer: str | None) -> None:
            self.answer = answer

        def shorten(self, text: str, most: int) -> str | None:
            return self.answer

    document = payload(data={"text": LONG})
    assert pressed(document, 300, "payload", summarizer=Model("12.40 EUR in Lyon")).document["data"] == {
        "text": "12.40 EUR in Lyon"
    }
    for useless in (None, "", "x" * 501):
        text = pressed(document, 300, "payload", summarizer=Model(useless)).document["data"]["text"]
        assert text.endswith("12.40 EUR. ...")


def test_payload_keeps_what_its_claims_rest_on() -> None:
    document = payload(data={"a": LONG, "b": LONG + LONG, "c": "short"}, context_refs=["brief"])
    found = pressed(document, 10, "payload")
    assert paths(found) == ["data.b", "data.a"]
    assert found.document["context_refs"] == ["brief"]


def test_output_keeps_its_evidence() -> None:
    prompt = "Please compare the prices of all five suppliers. " * 20
    evidence = [{"source": "s", "content": LONG}]
    document = {
        "parsed_output": {"_output_type": "r", "text": LONG},
        "envelope": {"agent_id": "a", "instructions": prompt, "retrieved_evidence": evidence},
    }
    found = pressed(document, 10, "output")
    assert paths(found) == ["envelope.instructions", "parsed_output.text"]
    assert found.document["envelope"]["instructions"] == "compare; prices; five suppliers..."
    assert found.document["envelope"]["retrieved_evidence"] == evidence


def test_a_format_without_a_plan_is_left_alone() -> None:
    assert pressed({"text": LONG}, 10, "nothing known").changes == ()


def test_the_chain_says_how_many_went() -> None:
    agents = [f"agent-{number}" for number in range(14)]
    assert cut_chain(agents, 10) == [*agents[:4], "... 5 more ...", *agents[9:]]
    assert cut_chain(agents[:10], 10) == agents[:10]
    assert cut_chain(agents, 2) is agents
    found = pressed(universal(meta={"handoff_chain": ["curator", *agents]}), 10)
    chain = found.document["handoff"]["meta"]["handoff_chain"]
    assert (chain[0], chain[4], chain[-1], len(chain)) == ("curator", "... 6 more ...", "agent-13", 10)


@pytest.mark.parametrize("changes", [{"target_agent_id": "agent-6"}, {"source_agent_id": "agent-6"}])
def test_a_loop_does_not_vanish_from_the_chain(changes: dict[str, Any]) -> None:
    chain = [*(f"agent-{number}" for number in range(14)), "researcher"]
    document = payload(call_chain=chain, **changes)
    assert pressed(document, 10, "payload").document["call_chain"] == chain


def test_hash_size_and_count_are_made_true_again() -> None:
    document = full()
    text = compact(document["handoff"]["payload"])
    document["handoff"]["meta"] |= {"payload_hash": f"sha256:{sha256_hex(text)}", "payload_size_bytes": len(text)}
    found = pressed(document, 700)
    assert "handoff.payload.session" in paths(found)
    assert codes(judge(found.document)) == []


def test_a_hash_that_was_wrong_stays_wrong() -> None:
    document = full(meta={"payload_hash": f"sha256:{'0' * 64}", "payload_size_bytes": 3})
    found = pressed(document, 700)
    assert found.document["handoff"]["meta"]["payload_hash"] == f"sha256:{'0' * 64}"
    assert "integrity.payload_hash_mismatch" in codes(judge(found.document))


def test_compressing_twice_changes_nothing_more() -> None:
    for limit in (10, 200, 400, 800):
        once = pressed(full(), limit)
        again = pressed(once.document, limit)
        assert again.document == once.document


def many(count: int) -> dict[str, Any]:
    return {"data": {str(number): "a. B" * 126 for number in range(count)}}


def many_of_all_sizes(count: int) -> dict[str, Any]:
    return {"data": {**dict.fromkeys(map(str, range(count * 35)), 1), **many(count // 2)["data"]}}


@pytest.mark.parametrize("counter", [default_counter(), CharacterCounter()], ids=["tokens", "characters"])
@pytest.mark.parametrize(
    "document",
    [
        lambda count: payload(**many(count)),
        lambda count: payload(data={"text": "word " * 100 * count}),
        lambda count: payload(**many_of_all_sizes(count)),
        lambda count: universal(payload={"working": many(count)}),
    ],
    ids=["many", "one", "mixed", "universal"],
)
def test_a_megabyte_takes_time_in_proportion(document: Callable[[int], dict[str, Any]], counter: TokenCounter) -> None:
    def pressing(count: int) -> Callable[[], object]:
        large = document(count)
        return partial(compress, large, "universal" if "handoff" in large else "payload", Budget(10, counter))

    assert grows_linearly(pressing, size(125))


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (200, "One is here. Two (e.g. this) costs 3.5 EUR. Three is longer! Four?"),
        (50, "One is here. Two (e.g. this) costs 3.5 EUR. ..."),
        (20, "One is here. ..."),
        (12, "One is..."),
        (3, "..."),
    ],
)
def test_whole_sentences(most: int, expected: str) -> None:
    text = "One is here. Two (e.g. this) costs 3.5 EUR. Three is longer! Four?"
    assert whole_sentences(text, within(most)) == expected


def test_sentences_of_languages_without_blanks() -> None:
    assert whole_sentences("価格は高い。次の文です。", within(10)) == "価格は高い。 ..."


def test_key_phrases() -> None:
    assert key_phrases("Compare it") == "Compare it"
    text = "Please write the market overview for 2026, and compare the Prices; compare the prices of all suppliers."
    assert key_phrases(text) == "write; market overview; 2026; compare; Prices; suppliers..."
    assert len(key_phrases("supplier prices of " * 500)) < 60


def test_a_plain_cut() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abc..."
    assert cut("abc defg", 7) == "abc..."
