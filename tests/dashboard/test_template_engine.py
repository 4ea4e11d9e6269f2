"""Tests of the template engine of the pages."""

import gc
import weakref

import pytest
from django.http import HttpRequest
from django.template import TemplateDoesNotExist, engines
from django.test import RequestFactory


class Value:
    pass


@pytest.fixture
def page(rf: RequestFactory) -> HttpRequest:
    return rf.get("/")


def test_the_values_of_a_page_are_freed_when_it_is_rendered(page: HttpRequest) -> None:
    value = Value()
    freed = weakref.ref(value)
    gc.disable()
    try:
        text = engines["django"].from_string("{% if value %}shown{% endif %}").render({"value": value}, page)
        del value
        assert (text, freed()) == ("shown", None)
    finally:
        gc.enable()


def test_a_missing_part_of_a_template_names_the_engine(page: HttpRequest) -> None:
    with pytest.raises(TemplateDoesNotExist) as error:
        engines["django"].from_string('{% include "no/such.html" %}').render({}, page)
    assert error.value.backend is engines["django"]
