"""Metrics: exact retrieval and clustering scores of embeddings."""
