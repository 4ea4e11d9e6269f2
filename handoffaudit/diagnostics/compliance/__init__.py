"""The compliance report of a period, as JSON, CSV and plain text."""
