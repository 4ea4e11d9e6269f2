"""Handoffs in OpenTelemetry traces: the reading of exports, the facts of a span, and the rules that find handoffs."""
