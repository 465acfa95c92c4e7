"""What the programs of this folder share: their arguments and their data."""
