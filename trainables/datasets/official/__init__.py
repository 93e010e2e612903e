"""Bring the official datasets to a machine: unpack, recognise the layout, count, hash."""
