"""The compliance report of any period: one value, shown as a page, JSON, CSV and plain text."""
