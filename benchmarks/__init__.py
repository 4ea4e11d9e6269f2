"""Measures the product against the floor of the same machine, in the same run."""
