"""The HTTP interface: routes and bodies.

This code translates between requests and services. The services decide everything.
"""
