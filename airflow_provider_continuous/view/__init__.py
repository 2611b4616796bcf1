"""What people are shown: which checkpoints, and what of each."""
