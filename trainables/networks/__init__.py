"""Build networks: trunks by name, their weights, and the embedding network around them."""
