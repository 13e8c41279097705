"""The ledger: keeps every verified, distinct success exactly once."""
