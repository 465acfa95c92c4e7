"""The cases behind the rows of `bench.py` and `kernels.py`; imported by every library's interpreter, 3.10 and later."""
