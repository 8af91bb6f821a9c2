"""The HTTP interface: routes and bodies.

It translates between requests and services, and decides nothing.
"""
