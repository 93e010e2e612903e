"""Check a GPU: run there what a study would run, compare it with the CPU, and measure it."""
