"""Tests of reading a request as submissions."""

from handoffaudit.handoffs.ingest.prepare import expand, read_submission


def test_a_context_may_be_as_deep_as_the_settings_say(settings) -> None:
    sent = b'{"document":{},"context":{"a":{"a":{"a":1}}}}'
    assert not read_submission(sent).issues
    settings.MAX_NESTING = 2
    (issue,) = read_submission(sent).issues
    assert "2 levels" in issue.message


def test_the_handoffs_of_an_export_keep_the_digits_of_long_integers() -> None:
    data = b'{"type": "handoff", "from_agent": "a", "to_agent": "b", "invoice": 100000000000000000001}'
    span = b'{"object": "trace.span", "id": "s", "trace_id": "t", "span_data": %b}' % data
    (handoff,) = expand(read_submission(b'{"data": [%b]}' % span))
    assert b'"invoice":100000000000000000001' in handoff.document
