"""``http``: rows as requests to a web service (a webhook), each with a key of its own."""
