"""What tests share: made studies, slow derivations, drivers to kill, invariants to hold. No test lives here."""
