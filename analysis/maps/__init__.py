"""Map kept embeddings: show what a trained network puts near and far."""
