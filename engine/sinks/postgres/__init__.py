"""``postgres``: rows in a table of PostgreSQL, appended or by key, exactly once.

Importing this without PostgreSQL's client is an error of the query that wants it.
"""

from engine.clients.postgres import import_client

import_client("sink postgres")
