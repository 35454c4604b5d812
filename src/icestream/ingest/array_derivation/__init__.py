"""Arrays that follow other arrays: how they are declared, and what the ledger knows of them."""
