"""What `handoffaudit report-file` and `handoffaudit watch` are made of."""
