"""Weights of the judge of texts about data: logistic regressions, cross-validated over the sources.

A sum above zero is doubt. What the names mean is said where they are made: `data_features.py`.
"""

# of the text as a whole; texts with and without faults weigh the same
TEXT = {
    "clock": 1.53,
    "numbered": 0.79,
    "no_such_day": 0.88,
    "against": 0.32,
    "bound": -0.19,
    "score": 1.41,
    "borne_out": -0.11,
    "new": 2.81,
    "few_facts": -1.13,
    "new_of_few": 0.55,
    "names": 0.25,
    "numbers": 0.50,
}
TEXT_START = -1.08

# of one word; it starts low enough to mark what is faulty one time in four
WORD = {
    "clause_borne_out": -0.38,
    "clause_new": 1.30,
    "clause_share": 0.44,
    "clause_words": -1.38,
    "date ungrounded": 0.36,
    "doubt": 0.33,
    "few": 0.20,
    "few_share": 1.60,
    "identifier grounded": -1.28,
    "identifier ungrounded": 0.14,
    "judging": 0.16,
    "name grounded": -0.57,
    "name ungrounded": 1.13,
    "new_word": 0.13,
    "number derived": 1.13,
    "number grounded": 0.41,
    "number ungrounded": 2.37,
    "opening": -0.29,
    "place": 1.23,
    "quote grounded": -0.34,
    "quote ungrounded": -0.34,
    "series": 1.29,
    "series_share": -1.36,
    "word_against": 0.70,
}
WORD_START = -1.58
