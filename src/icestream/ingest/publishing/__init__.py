"""Makes a run visible, in the repository and in the ledger, once and for all or not at all."""
