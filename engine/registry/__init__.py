"""Records whose schemas are in a registry: Confluent's wire format, of Avro, Protobuf and JSON
Schema."""
