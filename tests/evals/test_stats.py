"""Tests of the statistics of group chats, by hand-counted examples."""

from tests.evals.support import chat, measured


def test_back_and_forth_passes_and_repetition_is_caught():
    honest = [("asker", f"Is it {number}?") if number % 2 else ("solver", f"No, not {number}.") for number in range(9)]
    figures = measured(chat(*honest, mistake_step=8), layers=("chain",)).figures()
    assert (figures["items"], figures["same_way"], figures["same_data"]) == (8, 6, 0)
    assert "chain.repeats_without_progress" not in figures["codes"]
    stuck = [("asker", "Is it done?") if number % 2 else ("solver", "Not yet.") for number in range(7)]
    figures = measured(chat(*stuck, mistake_step=0), layers=("chain",)).figures()
    assert (figures["items"], figures["same_way"], figures["same_data"]) == (6, 4, 4)
    assert figures["codes"]["chain.repeats_without_progress"] == {"unknown": 1}


def test_the_same_words_in_another_trace_are_no_repetition():
    turns = [("asker", "Is it done?"), ("solver", "Not yet.")]
    chats = [chat(*turns, mistake_step=1) | {"trace_id": f"chat-{number}"} for number in range(4)]
    assert measured(*chats, layers=("chain",)).figures()["same_data"] == 0
