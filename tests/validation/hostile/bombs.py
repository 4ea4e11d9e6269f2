"""Documents whose parts multiply: claims with sources, sentences with facts, rules with places, schemas with values."""

from collections.abc import Callable
from typing import Any

from handoffaudit.validation.business_rules import BusinessRule, BusinessRuleSet, BusinessRuleType, Operator
from handoffaudit.validation.config import Requirements
from handoffaudit.validation.data_schema import DataSchema

from ..support import payload, universal
from .documents import Submission, filled, text_of

_CLAIMS = 400


def _claims(texts: list[str], context: Any) -> Submission:
    return Submission(payload(data={f"k{at}": text for at, text in enumerate(texts)}), context=context)


def _split(text: str, parts: int) -> list[str]:
    size = max(1, len(text) // parts)
    return [text[at : at + size] for at in range(0, size * parts, size)]


def _dates(size: int) -> str:
    return " ".join(f"{1000 + at % 8000}-{1 + at % 12:02}-{1 + at % 28:02}" for at in range(size // 11))


def dates_and_days(size: int) -> Submission:
    """Return many claims with many days, against rows with as many days."""
    rows = [f"{2000 + at % 90}-{1 + at % 12:02}-{1 + at % 28:02},{at}" for at in range(size // 2 // 14)]
    return _claims(_split(_dates(size // 2), _CLAIMS), {"table": "\n".join(["date,price", *rows])})


def days_in_one_claim(size: int) -> Submission:
    rows = [f"{2000 + at % 90}-{1 + at % 12:02}-{1 + at % 28:02},{at}" for at in range(size // 2 // 14)]
    claim = "the highest was 12.5 on " + _dates(size // 2)
    return _claims([claim], {"table": "\n".join(["date,price", *rows])})


def sentences_and_switches(size: int) -> Submission:
    """Return many sentences against as many facts that the data denies."""
    return _claims(
        [filled("a b. ", size // 2)], {f"port{_letters(at)}x": "no" for at in range(min(5000, size // 2 // 16))}
    )


def _letters(number: int) -> str:
    return "".join(chr(97 + int(digit)) for digit in f"{number:05}")


def many_tables(size: int) -> Submission:
    """Return many sources, each a small table."""
    table = "[" + ",".join(["1"] * 80) + "]"
    return _claims(["It was twelve and five of them all"], {"tables": [table] * (size // 170)})


def wide_table(size: int) -> Submission:
    return _claims(["It was twelve and five of them all"], {"t": "\n".join([filled("a,", size // 4)] * 4)})


def mentions_of_parties(size: int) -> Submission:
    context = {
        "homeTeam": {"name": "Abcd", "period1": 1},
        "homeScore": {"total": 4, "period1": 1},
        "awayTeam": {"name": "Efgh", "period1": 2},
        "awayScore": {"total": 2, "period1": 2},
    }
    return _claims([filled("Abcd won 4-1 in the first period. ", size)], context)


def orders_in_prose(size: int) -> Submission:
    """Return many short summaries of one long text."""
    source = filled("The council approved the budget of the city on Monday after a long debate. ", size // 2)
    claim = "The council did not approve the budget of the city on Monday after a very short debate, and left it. "
    return _claims([f"{claim}{at} were there." for at in range(min(_CLAIMS, size // 2 // len(claim)))], {"t": source})


def new_words_in_prose(size: int) -> Submission:
    source = text_of("different words", size // 2)
    claims = [f"The council {part} of the city." for part in _split(text_of("different words", size // 2), _CLAIMS)]
    return _claims([claim[:1500] for claim in claims], {"t": f"The council of the city. {source}."})


def values_unknown(size: int) -> Submission:
    """Return many values that are in no source, each searched for in a whole long text."""
    numbers = [f"{at * 7919 % 1000003}.5" for at in range(size // 2 // 9)]
    return _claims(_split(" ".join(numbers), _CLAIMS), {"t": filled("no number here at all ", size // 2)})


def names_unknown(size: int) -> Submission:
    names = text_of("different names", size // 2)
    return _claims(_split(names.replace(" ", " and "), _CLAIMS), {"t": text_of("different words", size // 2)})


def identifiers_unknown(size: int) -> Submission:
    names = " ".join(f"x{at}y@a.b" for at in range(size // 2 // 12))
    return _claims(_split(names, _CLAIMS), {"t": filled("x1y", size // 2)})


def numbers_in_order(size: int) -> Submission:
    numbers = " ".join(str(at * 3) for at in range(size // 2 // 7))
    claims = " ".join(f"{at * 3 + 1}.5" for at in range(size // 2 // 9))
    return _claims(_split(claims, _CLAIMS), {"t": numbers})


def quotes_unknown(size: int) -> Submission:
    quotes = " ".join(f'"one two three {at}"' for at in range(size // 2 // 22))
    return _claims(_split(quotes, _CLAIMS), {"t": filled("one two three ", size // 2)})


def dates_against_dates(size: int) -> Submission:
    return _claims(_split(_dates(size // 2), _CLAIMS), {"t": _dates(size // 2).replace("-", "/")})


def claims_without_number(size: int) -> Submission:
    number = min(100_000, size // 24)
    return Submission(payload(data={f"k{at}": "states a thing" for at in range(number)}), context={"t": "x"})


def items_of_evidence(size: int) -> Submission:
    number = min(100_000, size // 40)
    items = [{"source": f"s{at}", "content": {"t": "a"}} for at in range(number)]
    return Submission(payload(data={"evidence_refs": {"a": "s1"}, "a": "states a thing"}), evidence=items)


def evidence_that_is_none(size: int) -> Submission:
    return Submission(payload(data={"a": "states a thing"}), evidence=[None, 1, "a", [], {}] * (size // 15))


def sources_cited(size: int) -> Submission:
    refs = {f"k{at}": [f"s{at}"] for at in range(size // 18)}
    return Submission(payload(data={"evidence_refs": refs, "k1": "states a thing"}), evidence=[{"source": "t"}])


def sources_of_one_claim(size: int) -> Submission:
    refs = {"k": [f"s{at}" for at in range(size // 9)]}
    return Submission(payload(data={"evidence_refs": refs, "k": "states a thing"}), evidence=[{"source": "t"}])


def assumptions(size: int) -> Submission:
    return Submission(payload(data={"assumptions": [f"k{at}" for at in range(size // 9)], "k1": "states a thing"}))


def keys(size: int) -> Submission:
    return Submission({**payload(), **{f"k{at}": 0 for at in range(min(100_000, size // 11))}})


def keys_of_universal(size: int) -> Submission:
    return Submission(
        {"handoff": {**universal()["handoff"], **{f"k{at}": 0 for at in range(min(100_000, size // 11))}}}
    )


def long_key(size: int) -> Submission:
    return Submission(payload(data={"k" * size: "states a thing"}), context={"x" * 1000: "b"})


def long_agents(size: int) -> Submission:
    half = "a" * (size // 3)
    return Submission(payload(source_agent_id=half, target_agent_id="b" + half, call_chain=[half]))


def chain_of_agents(size: int) -> Submission:
    return Submission(payload(call_chain=[f"a{at}" for at in range(size // 10)] + ["researcher"]))


def text_as_data(size: int) -> Submission:
    words = "On 12 March 2024 it was 5.5 or 17 %, said “Maria Keller” of acme.example. "
    return Submission(payload(data=words * (size // len(words))), context={"t": "5.4"})


def chain_of_one(size: int) -> Submission:
    return Submission(payload(call_chain=["writer"] * (size // 10) + ["researcher"], handoff_reason="r"))


def lists_in_lists(size: int) -> Submission:
    data: Any = "states a thing"
    for _ in range(50):
        data = [data, data] if isinstance(data, str) else [data]
    return Submission(payload(data={"a": [data] * (size // 150)}), context={"a": [data] * 10})


def references(size: int) -> Submission:
    files = [{"path": f"work/{at}"} for at in range(size // 25)]
    return Submission(universal(payload={"references": {"files": files}}))


def enums_wrong(size: int) -> Submission:
    artifacts = [{"name": "", "path": "", "type": "x" * 60} for _ in range(size // 95)]
    return Submission(universal(payload={"session": {"artifacts": artifacts}}))


def _rule(number: int, field: str, **other: Any) -> BusinessRule:
    given = {"rule_type": BusinessRuleType.RANGE, "operator": Operator.LT, "threshold": 0, **other}
    return BusinessRule(rule_id=f"r{number}", name="r", field=field, **given)


def _ruled(data: dict[str, Any], rules: list[BusinessRule], **demands: Any) -> Submission:
    sets = (BusinessRuleSet(set_id="s", name="s", rules=rules),)
    return Submission(payload(data=data), demands=Requirements(rules=sets, **demands))


def rules_over_wide_data(size: int) -> Submission:
    """Return data of which every value breaks each of a hundred rules."""
    return _ruled({"v": [1] * (size // 2)}, [_rule(at, "v.*") for at in range(100)])


def rule_of_all_pairs(size: int) -> Submission:
    """Return data with a rule that compares each value with each other value."""
    rule = _rule(1, "v.*", compare_field="w.*", operator=Operator.LT)
    return _ruled({"v": [1] * (size // 4), "w": [2] * (size // 4)}, [rule])


def rule_of_large_values(size: int) -> Submission:
    value = ["a" * 100] * (size // 400)
    rule = _rule(1, "v", compare_field="w.*", operator=Operator.NE)
    return _ruled({"v": value, "w": [["a" * 100] * 10 for _ in range(size // 2200)]}, [rule])


def rule_of_choices(size: int) -> Submission:
    rule = _rule(1, "v.*", operator=Operator.IN, threshold=list(range(4_000)))
    return _ruled({"v": [-1] * (size // 3)}, [rule])


def rule_of_stars(size: int) -> Submission:
    return _ruled({"v": [[[1] * 10] * 10] * (size // 250)}, [_rule(at, "*.*.*.*") for at in range(20)])


def claim_fields(size: int) -> Submission:
    """Return a document with many claim fields whose paths all select the same places."""
    fields = tuple("v" + ".*" * stars for stars in range(1, 30)) + tuple(f"v.*.k{at}" for at in range(170))
    data = {"v": [{"k1": "states a thing"} for _ in range(size // 25)]}
    return Submission(payload(data=data), context={"t": "x"}, demands=Requirements(claim_fields=fields))


def _schemed(schema: Any, data: dict[str, Any]) -> Submission:
    return Submission(payload(data=data), demands=Requirements(schema=DataSchema(schema)))


def schema_of_alternatives(size: int) -> Submission:
    each = {"anyOf": [{"$ref": "#"}, {"$ref": "#"}, {"type": "null"}]}
    schema = {"properties": {"a": each}, "additionalProperties": each, "items": each}
    data: Any = 1
    for _ in range(40):
        data = {"a": data}
    return _schemed(schema, {"a": data, "b": [1] * (size // 2)})


def schema_of_a_loop(size: int) -> Submission:
    return _schemed({"$ref": "#"}, {"a": "b" * size})


def schema_of_unique_items(size: int) -> Submission:
    items = [{"a": at} for at in range(min(100_000, size // 12))]
    return _schemed({"properties": {"a": {"uniqueItems": True}}}, {"a": items})


def schema_of_equal_items(size: int) -> Submission:
    items = [[at, [at]] for at in range(min(100_000, size // 12))]
    return _schemed({"properties": {"a": {"uniqueItems": True}}}, {"a": [*items, items[0]]})


def schema_of_a_pattern(size: int) -> Submission:
    return _schemed({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * size + "!"})


def schema_of_a_large_enum(size: int) -> Submission:
    choices = [f"c{at}" for at in range(15_000)]
    return _schemed({"properties": {"a": {"items": {"enum": choices}}}}, {"a": ["d"] * (size // 4)})


def schema_that_all_breaks(size: int) -> Submission:
    return _schemed({"additionalProperties": {"items": {"type": "null"}}}, {"a": [1] * (size // 2)})


def schema_of_the_sender(size: int) -> Submission:
    envelope = {"agent_id": "a", "agent_type": "b", "envelope_id": "e", "trace_id": "t", "tenant_id": "default"}
    envelope |= {"instructions": "", "context": {}, "retrieved_evidence": []}
    schema = {"anyOf": [{"const": "x" * 100}] * (size // 120)}
    return Submission({"parsed_output": {"a": "b"}, "envelope": {**envelope, "expected_output_schema": schema}})


def large_numbers(size: int) -> Submission:
    data = {f"k{at}": 1e300 * (at + 1) for at in range(size // 50)}
    return Submission(payload(data=data), context={"v": [1.7e308 - at * 1e290 for at in range(size // 50)]})


def large_integers(size: int) -> Submission:
    return Submission(payload(data={"k": 10 ** (size // 300), "l": -(10**700)}), context={"v": [10**4000] * 20})


def figures_without_end(size: int) -> Submission:
    claim = "It was 5.5 and 17 % or 1e400 and " + "9" * 400
    return Submission(payload(data={"a": claim}), context={"t": " ".join(["9" * 400] * (size // 401))})


def marks_out_of_order(size: int) -> Submission:
    """Return a source of one letter with accents above and below it in turn."""
    claim = "It was 5.5 for Ana Silva"
    return Submission(payload(data={"a": claim}), context={"t": "a" + "\u0301\u0323" * (size // 4)})


BOMBS: dict[str, Callable[[int], Submission]] = {
    bomb.__name__.replace("_", " "): bomb
    for bomb in (
        dates_and_days,
        days_in_one_claim,
        sentences_and_switches,
        many_tables,
        wide_table,
        mentions_of_parties,
        orders_in_prose,
        new_words_in_prose,
        values_unknown,
        names_unknown,
        identifiers_unknown,
        numbers_in_order,
        quotes_unknown,
        dates_against_dates,
        claims_without_number,
        items_of_evidence,
        evidence_that_is_none,
        sources_cited,
        sources_of_one_claim,
        assumptions,
        keys,
        keys_of_universal,
        long_key,
        long_agents,
        chain_of_agents,
        text_as_data,
        chain_of_one,
        lists_in_lists,
        references,
        enums_wrong,
        rules_over_wide_data,
        rule_of_all_pairs,
        rule_of_large_values,
        rule_of_choices,
        rule_of_stars,
        claim_fields,
        schema_of_alternatives,
        schema_of_a_loop,
        schema_of_unique_items,
        schema_of_equal_items,
        schema_of_a_pattern,
        schema_of_a_large_enum,
        schema_that_all_breaks,
        schema_of_the_sender,
        large_numbers,
        large_integers,
        figures_without_end,
        marks_out_of_order,
    )
}
