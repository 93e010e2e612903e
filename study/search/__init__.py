"""Search and stop early: one searcher and one scheduler that serve all cells of a study."""
