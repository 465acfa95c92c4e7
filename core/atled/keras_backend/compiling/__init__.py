"""Functions: expressions compiled to programs, one for each tuple of input shapes and dtypes."""
