"""From nodes to a plan: fusion, attachment, memory."""
