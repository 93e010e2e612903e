"""End a study in order, whatever ends it: a signal, a full disk, a dead Ray, a hung slot, a bug."""
