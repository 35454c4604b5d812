"""Updates become manifests and edits: all of a run that can be written before its commit."""
