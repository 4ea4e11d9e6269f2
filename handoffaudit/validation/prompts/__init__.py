"""Questions to an LLM: their prompts, the masking of secrets, and the parsing of answers.

The caller of the LLM implements `layers.base.LanguageModel`.
"""
