"""The graph as nodes: operations on described values, their gradients, and who computes them."""
