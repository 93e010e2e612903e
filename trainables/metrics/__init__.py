"""Score embeddings exactly, by retrieval and by clustering."""
