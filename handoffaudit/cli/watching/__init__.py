"""What `handoffaudit watch` is made of: patterns, scans of a folder, and what is to be reported."""
