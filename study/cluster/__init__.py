"""Connect to the Ray cluster that a study runs on."""
