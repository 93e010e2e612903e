"""Search strategies: propose hyperparameter settings for one cell."""
