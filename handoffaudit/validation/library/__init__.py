"""The engine as a library for code that validates LLM outputs: validators, models and the pipeline.

This package makes no checks of its own: each class calls the engine's layers and converts their findings into the
models that users' code reads.
"""
