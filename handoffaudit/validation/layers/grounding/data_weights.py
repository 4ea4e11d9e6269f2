"""Weights of the judge of texts about data: logistic regressions, cross-validated over the sources.

A sum above zero is doubt. What the names mean is said where they are made: `data_features.py`.
"""

# of the text as a whole; texts with and without faults weigh the same
TEXT = {
    "clock": 1.59,
    "numbered": 0.90,
    "no_such_day": 0.76,
    "against": 0.26,
    "bound": 0.14,
    "score": 1.51,
    "borne_out": -0.11,
    "new": 2.92,
    "few_facts": -1.14,
    "new_of_few": 0.55,
    "names": 0.16,
    "numbers": 0.55,
}
TEXT_START = -0.84

# of one word; it starts low enough to mark what is faulty one time in four
WORD = {
    "clause_borne_out": -0.45,
    "clause_new": 1.26,
    "clause_share": 0.40,
    "clause_words": -1.33,
    "date ungrounded": 0.27,
    "doubt": 0.36,
    "few": 0.18,
    "few_share": 1.60,
    "identifier grounded": -1.13,
    "identifier ungrounded": 0.12,
    "judging": 0.15,
    "name grounded": -0.57,
    "name ungrounded": 1.70,
    "new_word": 0.14,
    "number derived": 0.90,
    "number grounded": 0.44,
    "number ungrounded": 2.28,
    "opening": -0.30,
    "place": 1.21,
    "quote grounded": -0.30,
    "quote ungrounded": -0.29,
    "series": 1.20,
    "series_share": -1.27,
    "word_against": 0.71,
}
WORD_START = -1.57
