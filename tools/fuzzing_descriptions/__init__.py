"""Random descriptions of programs, drawn together with what NumPy makes of them."""
