"""Drawings: pure functions that turn values into SVG and a text version. They use no Django and no network."""
