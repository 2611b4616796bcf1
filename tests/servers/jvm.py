"""How the JVMs of tests start: what lives for seconds costs half if it compiles less, and collects
garbage on one thread."""

QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
