"""Small classes of Java, made in the JVM of a session by the compiler that Spark itself uses: for
loops of questions that would go to the JVM and back each."""

from __future__ import annotations

from functools import cache
from typing import Any

from pyspark.sql import SparkSession


@cache
def java_class(spark: SparkSession, name: str, source: str) -> Any:
    """The class of that name, a ``java.lang.Class``.

    :param source: in the Java that Janino knows: without generics and lambdas.
    """
    jvm: Any = spark._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    return compiler.getClassLoader().loadClass(name)
