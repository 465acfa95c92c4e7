"""Random numbers from counters, and the ops that draw them."""
