"""The Policies pages: code that all policy kinds share, the page of each kind, and dry runs."""
