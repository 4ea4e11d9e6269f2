"""The Traces pages: the list of traces and the page of one trace."""
