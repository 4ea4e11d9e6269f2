"""Tests of the LLM client that the settings configure."""

import subprocess
import sys

import pytest

from handoffaudit.llm.service import build_caller, build_client, load_prices
from handoffaudit.validation.prompts.pricing import SHIPPED, Price
from handoffaudit.validation.prompts.question import Role


@pytest.mark.parametrize("key", ["", "  ", "\n"])
def test_without_a_key_there_is_no_client(key):
    assert build_client("anthropic", key) is None


@pytest.mark.parametrize("provider", ["bedrock", "vertex"])
def test_other_providers_need_none(provider):
    assert build_client(provider) is not None


def test_equal_settings_share_one_client():
    assert build_client("anthropic", "a-key") is build_client("anthropic", "a-key")
    assert build_client("anthropic", "a-key") is not build_client("anthropic", "another")


def test_the_caller_has_a_model_for_each_role():
    caller = build_caller(build_client("anthropic", "a-key"), fast="quick", careful="slow")
    assert [caller.model_of(role) for role in (Role.FAST, Role.CAREFUL)] == ["quick", "slow"]


def test_prices_are_those_of_the_environment(monkeypatch):
    monkeypatch.delenv("HANDOFFAUDIT_MODEL_PRICES", raising=False)
    assert load_prices() == SHIPPED
    monkeypatch.setenv("HANDOFFAUDIT_MODEL_PRICES", '{"haiku-5-5": {"input": 1, "output": 2}}')
    assert load_prices()["haiku-5-5"] == Price(1, 2, 1)
    monkeypatch.setenv("HANDOFFAUDIT_MODEL_PRICES", "dear")
    with pytest.raises(ValueError, match="HANDOFFAUDIT_MODEL_PRICES: the prices are not a JSON object"):
        load_prices()


@pytest.mark.parametrize("name", ["", "  "])
def test_a_price_of_every_llm_is_refused(monkeypatch, name):
    monkeypatch.setenv("HANDOFFAUDIT_MODEL_PRICES", f'{{"{name}": {{"input": 1, "output": 2}}}}')
    with pytest.raises(ValueError, match="HANDOFFAUDIT_MODEL_PRICES: a name is empty"):
        load_prices()


def test_a_price_without_a_float_is_refused(monkeypatch):
    monkeypatch.setenv("HANDOFFAUDIT_MODEL_PRICES", f'{{"opus": {{"input": 1, "output": 1{"0" * 400}}}}}')
    with pytest.raises(ValueError, match='the price of "opus" has 1000'):
        load_prices()


def test_the_sdk_is_not_loaded_before_a_call():
    program = """
import sys
from handoffaudit.llm import ClaudeService, claude_critic
from handoffaudit.llm.service import build_caller, build_client
build_caller(build_client("anthropic", "a-key"), fast="a", careful="b")
ClaudeService(), claude_critic()
print(sorted({"anthropic", "httpx2", "django"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
