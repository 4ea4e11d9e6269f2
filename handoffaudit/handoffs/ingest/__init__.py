"""The ingest of submissions: preparation of the columns, and storage."""
