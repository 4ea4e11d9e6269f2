"""Evaluation of the layers on public corpora. The wheel of the product does not include this package."""
