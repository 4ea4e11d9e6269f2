"""Values in, SVG and its twin in words out. No Django, no network."""
