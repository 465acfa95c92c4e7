"""`python -m atled doctor`: what is installed, what of it works, and what to do about the rest."""
