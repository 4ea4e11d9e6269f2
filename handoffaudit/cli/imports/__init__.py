"""What `handoffaudit import` does: documents out of files, in batches, into the product."""
