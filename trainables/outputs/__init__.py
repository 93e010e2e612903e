"""Write what a trial leaves: checkpoints and artifacts on disk, and networks for other programs."""
