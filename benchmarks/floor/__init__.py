"""The floor: bare views that do only the measured work, with the product's server and database settings."""
