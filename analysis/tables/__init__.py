"""Make tables: one file per table, all of one shape, and one writer per format."""
