"""Tests of the JSON that is counted and hashed."""

from handoffaudit.validation.json_text import canonical, compact, data_hash, python_compact, sha256_hex

from .support import payload, record_of


def test_compact_keeps_order_and_letters() -> None:
    assert compact({"b": [1, 2.5], "a": "é 東"}) == '{"b":[1,2.5],"a":"é 東"}'.encode()


def test_canonical_sorts_at_every_level() -> None:
    assert canonical({"b": {"d": 1, "c": 2}, "a": 1}) == b'{"a":1,"b":{"c":2,"d":1}}'


def test_what_orjson_refuses_is_written_all_the_same() -> None:
    deep: list[object] = []
    for _ in range(300):
        deep = [deep]
    assert compact(["\ud800"]) == b'["\xed\xa0\x80"]'
    assert canonical({"b": 2**70, "a": 1}) == b'{"a":1,"b":1180591620717411303424}'
    assert len(compact(deep)) == 602


def test_numbers_as_python_spells_them() -> None:
    assert compact(1.5e-7) == b"1.5e-7"
    assert python_compact(1.5e-7) == b"1.5e-07"


def test_equal_data_have_equal_hashes() -> None:
    one = record_of(payload(data={"a": 1, "b": "é"}))
    other = record_of(payload(data={"b": "é", "a": 1}, handoff_id="other"))
    assert data_hash(one) == data_hash(other) == sha256_hex('{"a":1,"b":"é"}'.encode())
