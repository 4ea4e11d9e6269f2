"""Weights of the judge of texts about data: logistic regressions, cross-validated over the sources.

A sum above zero is doubt. What the names mean is said where they are made: `data_features.py`.
"""

# of the text as a whole; texts with and without faults weigh the same
TEXT = {
    "clock": 1.61,
    "numbered": 0.90,
    "no_such_day": 0.80,
    "against": 0.26,
    "bound": 0.13,
    "score": 1.52,
    "borne_out": -0.11,
    "new": 2.77,
    "few_facts": -1.14,
    "new_of_few": 0.56,
    "names": 0.22,
    "numbers": 0.55,
}
TEXT_START = -1.08

# of one word; it starts low enough to mark what is faulty one time in four
WORD = {
    "clause_borne_out": -0.45,
    "clause_new": 1.28,
    "clause_share": 0.43,
    "clause_words": -1.32,
    "date ungrounded": 0.29,
    "doubt": 0.37,
    "few": 0.19,
    "few_share": 1.58,
    "identifier grounded": -1.09,
    "identifier ungrounded": 0.12,
    "judging": 0.18,
    "name grounded": -0.57,
    "name ungrounded": 1.06,
    "new_word": 0.14,
    "number derived": 1.01,
    "number grounded": 0.44,
    "number ungrounded": 2.20,
    "opening": -0.28,
    "place": 1.25,
    "quote grounded": -0.27,
    "quote ungrounded": -0.27,
    "series": 1.18,
    "series_share": -1.33,
    "word_against": 0.73,
}
WORD_START = -1.60
