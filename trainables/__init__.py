"""How one configuration is trained and measured."""

from trainables.embedder import load_embedder

__all__ = ["load_embedder"]
