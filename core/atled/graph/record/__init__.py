"""Calls as they are recorded, and what is asked of a record."""
