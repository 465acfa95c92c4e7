"""The reference pages of the functions, generated from their op specs."""
