"""OpenTelemetry traces: the storage of their spans, and the handoffs and tool results that are made of them."""
