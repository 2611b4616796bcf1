"""The user's own state per key: ``applyInPandasWithState`` and ``transformWithState``.

The user's class runs unmodified, and with PySpark's own classes around it; what these ask the JVM
for, by way of a socket, is answered here from memory.

==================  ==========================================================================
``spec``            what a plan says of a function or a processor
``values``          a value as the user has it, as it is kept, and in Arrow
``keys``            grouping keys; the rows of a batch by their keys
``layout``          how rows of state stand in a table of a snapshot
``kept``            the rows themselves: values, lists, maps, and which of them have changed
``timers``          timers; ``due``: what is due at a time
``client``          what PySpark's state classes call in place of the JVM
``declared``        which variables a processor declares; on the driver
``rows``            rows and results as ``Row``
``frames``          rows and results as ``pandas.DataFrame``
``stage``           what both kinds of stage do alike
``processors``      ``transformWithState``, ``transformWithStateInPandas``
``group_states``    ``applyInPandasWithState``
==================  ==========================================================================

Each batch of an epoch is what a micro-batch is to Spark: a function is called once for each of its
keys, with the rows that it has. Processing time is when the epoch was opened. What is due fires at
the end of the epoch, as it would in the micro-batch without data that follows a new watermark.
"""
