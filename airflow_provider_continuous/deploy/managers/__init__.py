"""What is asked of the managers of Spark's clusters about a driver in cluster mode; one a file."""
