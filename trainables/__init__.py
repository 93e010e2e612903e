"""Train and measure one configuration."""

from trainables.outputs.embedder import load_embedder

__all__ = ["load_embedder"]
