"""Database connections while a thread waits for something else."""

from django.db import connection


def lend_connection() -> None:
    """Back into the pool while waiting: a handful of waiting threads must not keep all others from the database."""
    if connection.vendor == "postgresql" and not connection.in_atomic_block:
        connection.close()
