"""Drive a study in one process: its folder, its lease, its MLflow mirror and its end."""
