"""Benchmarks that compare the product with the floor on the same machine, in the same run."""
