"""Manifests that are written before the commit that uses them.

`planning` tells which cells of an array change, `writing` writes one of them, anywhere, `commits`
makes them a version, and `publishing` several versions that are seen at once. No process holds
more references than those of one cell.
"""
