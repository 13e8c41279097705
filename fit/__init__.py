"""How the policy learns from the ledger."""
