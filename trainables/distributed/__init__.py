"""Connect the ranks of one trial: their team, gathered embeddings, process-wide settings."""
