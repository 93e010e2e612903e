"""Embedding maps: what a trained network puts near and far, from the embeddings that final trials leave."""
