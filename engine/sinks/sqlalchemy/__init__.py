"""``sqlalchemy``: rows in a table of any database with transactions, exactly once.

Importing this without SQLAlchemy is an error of the query that wants it.
"""

from engine.sinks.sqlalchemy.database import import_client

import_client()
