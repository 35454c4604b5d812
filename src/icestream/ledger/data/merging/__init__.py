"""How the rows of an input become records: five strategies, on Arrow tables."""
