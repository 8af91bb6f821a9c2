"""The console: web pages over the REST API, for people.

A page calls the REST API inside this process, with the reader's own API key. So a page can show
and change only what its reader may see and change by REST.
"""
