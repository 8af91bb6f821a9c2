"""The sub-commands of `angelia`, one module per family; imported when they are used."""
