"""The tests: plain ones, and those marked slow; tests/support/ has what they share."""
