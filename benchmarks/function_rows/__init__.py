"""The cases behind the rows of `functions.py`; imported by every library's interpreter (Python 3.10 and later)."""
