"""The layers that `atled.parametric_functions` offers, by family, and what they are made of."""
