"""The console: web pages over the REST API, for people.

A page is made from requests to the REST API inside of this process, with the caller's own key. So
a page can show and change what its reader may see and change by REST, and nothing else.
"""
