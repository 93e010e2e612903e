"""List the datasets, bring them to a machine, and decode their images."""
