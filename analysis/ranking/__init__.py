"""Rank losses: which readings make a number, how sure it is, and what it means."""
