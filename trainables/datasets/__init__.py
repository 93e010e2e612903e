"""Images and their labels: what a dataset consists of, how it comes to a machine, and its decoded pixels."""
