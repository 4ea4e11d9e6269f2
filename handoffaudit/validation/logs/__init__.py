"""The parsing and writing of log lines: health lines in two forms, gate lines and trace lines (`docs/logs.md`)."""
