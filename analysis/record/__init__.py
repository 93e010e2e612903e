"""Keep the record of a study: its ledger of events, the state they add up to, and its frames."""
