"""The structure of the code, measured from its imports and held against a declared order; tools/house.py shows it."""
