"""What a task knows: its arguments, what it remembers, what it may restart, whether it is over."""
