"""What the finished trials say."""
