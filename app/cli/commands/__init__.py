"""The sub-commands of `angelia`: one module for each family, imported when it is used."""
