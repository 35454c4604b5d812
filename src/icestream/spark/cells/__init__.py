"""Cells of arrays as rows: what a group holds, which cells are wanted, the batches they become."""
