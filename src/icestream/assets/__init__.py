"""Typed load and save of the files of a repository, over one storage, with caches."""
