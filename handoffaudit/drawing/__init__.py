"""Drawings: pure functions from values to SVG and a text version. No Django, no network."""
