"""Estimate what a study will cost: trials, epochs, hours and disk."""
