"""The engine as a library for code that validates the outputs of models: its validators, models and pipeline.

No check is made here: each name asks the engine's layers and puts their answers into the shapes that users' code reads.
"""
