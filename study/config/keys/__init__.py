"""Define the keys of a study: what each accepts, its default, and what it means."""
