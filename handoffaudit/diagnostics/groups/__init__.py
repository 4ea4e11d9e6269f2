"""Finding groups: their keys and members, storage, mutes, statistics and queries."""
