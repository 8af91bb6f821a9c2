"""All SQL of Angelia: the database's engine, its tables, and repositories.

Code outside of this package gets objects of the domain, such as topics, and never table rows.
"""
