"""The compliance report of a period, and its form as JSON, CSV and plain text."""
