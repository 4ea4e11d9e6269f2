"""Tests of the headers that are read from an error, and of the words that are shown of it."""

from datetime import UTC, datetime

import pytest

from handoffaudit.llm import errors
from handoffaudit.validation.prompts.question import Reason

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("Sat, 21 Nov 2026 12:01:30 GMT", 90),
        ("Sat, 21 Nov 2026 12:01:30 -0000", 90),
        ("Sat, 21 Nov 2026 14:01:30 +0200", 90),
        ("Sat, 21 Nov 2026 11:59:00 GMT", None),
        ("Sat, 21 Nov 2099 12:00:00 GMT", 3600),
        ("Sat, 99 Nov 2026 12:00:00 GMT", None),
        ("1e400", None),
        ("\x00", None),
        ("9" * 5000, None),
    ],
)
def test_retry_after(header, seconds):
    assert errors.parse_retry_after(header, NOW) == seconds


def test_the_services_words_are_told_where_something_is_to_be_fixed():
    refused = errors.error_of_status(400, retry_after=None, message="Your credit\nis low.", now=NOW)
    assert refused.detail.endswith('; the service says "Your credit is low.".')
    overloaded = errors.error_of_status(529, retry_after=None, message="Overloaded", now=NOW)
    assert overloaded.detail == "The LLM service is overloaded (529)."


def test_what_looks_like_a_secret_is_not_told():
    message = "key sk-ant-api03-0123456789abcdef is not valid"
    assert "sk-ant" not in errors.error_of_status(401, retry_after=None, message=message, now=NOW).detail


@pytest.mark.parametrize(
    ("status", "reason"), [(599, Reason.SERVER_ERROR), (451, Reason.REFUSED), (101, Reason.REFUSED)]
)
def test_a_status_without_a_row_has_that_of_its_class(status, reason):
    error = errors.error_of_status(status, retry_after=None, message=None, now=NOW)
    assert (error.reason, error.status) == (reason, status)
    assert str(status) in error.detail
