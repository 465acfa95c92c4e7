"""From recorded functions to running plans: representation, gradients, lowering, execution."""
