"""Show a study while it runs."""
