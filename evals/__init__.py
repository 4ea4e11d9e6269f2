"""Evaluation of the layers on public corpora, beside the product and outside its wheel."""
