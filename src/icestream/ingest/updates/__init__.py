"""What a repository needs to get from one placement of its files to the next."""
