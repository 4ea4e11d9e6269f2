"""Evaluation of the layers on labelled data. This package reads no files and does not import Django."""
