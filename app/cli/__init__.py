"""The `angelia` command. Each family of sub-commands has a module."""
