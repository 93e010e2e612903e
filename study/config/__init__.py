"""Read and check what the user asked for, and expand it into a plan."""
