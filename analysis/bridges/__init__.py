"""Write a study's record for other programs: Optuna, TensorBoard and whatever reads Parquet."""
