"""Angelia: HTTP push delivery, from a message log to every subscriber."""

from app import native

# The compiled modules, if there are any, must be installed before any other module is imported.
native.install()
