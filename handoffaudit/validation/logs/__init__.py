"""Lines of logs, read and written: health lines in two forms, gate lines and trace lines (`docs/logs.md`)."""
