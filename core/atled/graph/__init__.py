"""From recorded calls to running plans: representation, gradients, lowering, execution."""
