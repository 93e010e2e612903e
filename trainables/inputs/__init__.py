"""Turn a dataset into batches: which rows, which crops, and how they reach the device."""
