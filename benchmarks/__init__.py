"""Speed and memory of icestream beside icechunk, measured in the same run."""
