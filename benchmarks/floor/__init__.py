"""The floor: views that do nothing but the one thing, under the same server and database settings as the product."""
