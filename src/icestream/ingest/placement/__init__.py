"""Where files go: do they agree, where do they lie, and which arrays do they make?"""
