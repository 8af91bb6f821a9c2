"""Reports: tables with charts, for a terminal, for programs, and for a browser."""
