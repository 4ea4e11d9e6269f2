"""What `handoffaudit report-file` and `handoffaudit watch` share: files, receivers, and a folder followed."""
