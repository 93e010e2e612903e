"""List the datasets, decode their images or map their vectors, and check them."""
