"""Tests of an import into the local database."""

import gzip
import json
from pathlib import Path

import pytest

from handoffaudit.cli.documents import Source
from handoffaudit.cli.import_files import ImportReport, _import
from handoffaudit.cli.import_receivers import DatabaseReceiver
from handoffaudit.cli.terminal import ProgressBar
from handoffaudit.handoffs.models import Handoff, HandoffBody, State

PAYLOAD = {"source_agent_id": "a", "target_agent_id": "b", "call_chain": ["a"], "handoff_type": "m", "data": {"x": 1}}


def bring(tenant, path) -> ImportReport:
    report = ImportReport()
    _import([Source(str(path))], DatabaseReceiver(tenant), report, ProgressBar(0, show=False))
    return report


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "lines.jsonl"
    rows = [
        json.dumps({"format": "payload", "document": PAYLOAD | {"handoff_id": "h-1"}, "trace_id": "t-1", "step": 3}),
        json.dumps(PAYLOAD | {"handoff_id": "h-2"}),
        json.dumps({"document": PAYLOAD}),
        json.dumps({"document": PAYLOAD}),
        json.dumps({"format": "universal", "raw": "id: yaml\nstatus: new"}),
        "{broken",
        json.dumps({"document": PAYLOAD, "lable": "a typing error"}),
    ]
    path.write_text("\n".join(rows))
    return path


def test_every_line_is_stored_and_told_of(tenant, lines):
    report = bring(tenant, lines)
    assert report.counts == {"taken": 4, "rejected": 3}
    assert {code: reason.lines for code, reason in report.rejected.items()} == {
        "structure.json_parse": ["5", "6"],
        "structure.unknown_field": ["7"],
    }
    assert Handoff.objects.filter(tenant=tenant).count() == 7
    first = Handoff.objects.get(handoff_id="h-1")
    assert (first.trace_id, first.step, first.state) == ("t-1", 3, State.RECEIVED)


def test_the_bytes_that_are_kept_are_those_of_the_file(tenant, lines):
    bring(tenant, lines)
    kept = {bytes(original) for original in HandoffBody.objects.values_list("original", flat=True)}
    assert b"{broken" in kept
    assert b"id: yaml\nstatus: new" in kept
    assert json.dumps(PAYLOAD | {"handoff_id": "h-1"}).encode() in kept


def test_the_same_file_again_adds_nothing(tenant, lines):
    bring(tenant, lines)
    assert bring(tenant, lines).counts == {"already_there": 7}
    assert Handoff.objects.count() == 7


def test_each_handoff_of_a_trace_export_is_stored(tenant, tmp_path):
    path = tmp_path / "exports.jsonl"
    export = gzip.decompress((Path(__file__).parents[2] / "frameworks" / "openai-agents.json.gz").read_bytes())
    path.write_text("\n".join(json.dumps(one) for one in (json.loads(export), PAYLOAD)))
    assert bring(tenant, path).counts == {"taken": 5}
    assert bring(tenant, path).counts == {"already_there": 5}
    assert Handoff.objects.filter(format="framework", target_agent_id="writer").count() == 2


def test_what_is_refused_is_told_with_its_reason_and_lines(tenant, lines, tmp_path):
    bring(tenant, lines)
    other = tmp_path / "other.jsonl"
    changed = PAYLOAD | {"handoff_id": "h-1", "data": {"x": 2}}
    strange = PAYLOAD | {"handoff_id": "h-9", "tenant_id": "globex"}
    large = PAYLOAD | {"handoff_id": "h-10", "data": {"x": "y" * 1_100_000}}
    other.write_text("\n".join(json.dumps(one) for one in (changed, strange, strange, large)))
    report = bring(tenant, other)
    assert report.counts == {"refused": 4}
    assert {why[:3]: reason.lines for why, reason in report.refused.items()} == {
        "409": ["1"],
        "403": ["2", "3"],
        "413": ["4"],
    }
    assert "line 2, 3" in report.as_text()
    assert report.as_json()["refused"] == 4


def test_a_broken_document_of_an_array_is_stored_as_rejected(tenant, tmp_path):
    path = tmp_path / "array.json"
    path.write_bytes(b'[%s,\n {"data": "caf\xe9"}]' % json.dumps(PAYLOAD).encode())
    assert bring(tenant, path).counts == {"taken": 1, "rejected": 1}
    assert b'{"data": "caf\xe9"}' in {bytes(kept) for kept in HandoffBody.objects.values_list("original", flat=True)}


def test_files_behind_damaged_ones_are_imported(tenant, tmp_path):
    names = ["a.jsonl.gz", "b.jsonl.gz", "c.jsonl"]
    for name in names:
        line = json.dumps(PAYLOAD | {"handoff_id": name}).encode() + b"\n"
        (tmp_path / name).write_bytes(gzip.compress(line + b" " * 10_000, 0)[:-5_000] if "gz" in name else line)
    report = ImportReport()
    sources = [Source(str(tmp_path / name)) for name in names]
    stopped = _import(sources, DatabaseReceiver(tenant), report, ProgressBar(0, show=False))
    assert set(Handoff.objects.values_list("handoff_id", flat=True)) == set(names)
    assert "2 of 3 files" in stopped.message
    assert all(name in stopped.message for name in names[:2])
    assert stopped.code == 2
