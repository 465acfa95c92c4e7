"""Updating parameters from gradients, in the plan of a training step or apart."""
