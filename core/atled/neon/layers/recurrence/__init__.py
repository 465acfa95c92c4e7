"""Recurrent layers, by family."""
