"""The `angelia` command: one module per family of sub-commands."""
