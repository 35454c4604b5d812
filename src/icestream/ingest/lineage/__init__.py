"""Where the data of a workspace come from and where they go, as a graph."""
