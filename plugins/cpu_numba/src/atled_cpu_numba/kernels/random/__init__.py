"""Random numbers from counter-based streams, and the ops that draw them."""
