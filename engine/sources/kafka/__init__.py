"""``kafka``: the topics of a Kafka cluster as a stream, with Spark's options, rows and offsets."""
