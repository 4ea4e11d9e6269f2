"""What commands share that judge files here, without a server: nothing of Django is loaded."""
