"""Findings alike, folded: where they are kept, muted, listed and looked up."""

from handoffaudit.diagnostics.groups.belonging import (
    group_among,
    group_of,
    groups_by_key,
    handoffs_of,
    muted_handoffs,
)

__all__ = ["group_among", "group_of", "groups_by_key", "handoffs_of", "muted_handoffs"]
