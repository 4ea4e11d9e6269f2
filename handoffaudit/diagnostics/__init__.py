"""Why handoffs were not what they should have been: their files, logs, traces, and how the model does."""
