"""Random numbers: streams whose rows are variables, and functions that draw by them."""
