"""The proposer: one frozen policy that answers what it would do."""
