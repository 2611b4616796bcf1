"""The pieces of the readings example: the batch job that the query is compared with."""
