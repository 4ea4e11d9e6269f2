"""Evaluation of the layers: labelled data, the pipeline's findings, and their statistics. No files, no Django."""
