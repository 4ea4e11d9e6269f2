"""Prompts and answers of an LLM: the questions, the masking of secrets and the parsing of answers.

The caller of the LLM implements `ports.LanguageModel`.
"""
