"""Reads many trees from Spark: what does not change is asked once of each class.

Reading an expression asks the JVM dozens of questions for each node, most of them about its class.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import SparkSession

from engine.plan import (
    catalyst,
    catalyst_expressions,
    common_expressions,
    constants,
    spark_rules,
)
from engine.plan.catalyst import scala_seq
from tests.spark.java_classes import java_class
from tests.spark.jvm_names import names_remembered

_REPLACEABLE: Final = "org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable"
_SOURCE: Final = """
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern;

public class NullSets {
  private HashSet names;

  public void names(String names) { this.names = new HashSet(Arrays.asList(names.split(","))); }

  /** The expressions of these names, in a plan, that have NULL somewhere in them. */
  public ArrayList of(LogicalPlan plan) {
    ArrayList found = new ArrayList();
    collect(plan, found);
    return found;
  }

  private void collect(LogicalPlan plan, ArrayList found) {
    collect(plan.expressions(), found);
    scala.collection.Iterator plans = plan.children().iterator();
    while (plans.hasNext()) collect((LogicalPlan) plans.next(), found);
  }

  private void collect(scala.collection.Seq expressions, ArrayList found) {
    scala.collection.Iterator items = expressions.iterator();
    while (items.hasNext()) {
      Expression node = (Expression) items.next();
      if (!node.containsPattern(TreePattern.NULL_LITERAL())) continue;
      if (names.contains(node.getClass().getSimpleName())) found.add(node);
      collect(node.children(), found);
    }
  }
}
"""
_classes: dict[tuple[str, str], bool] = {}


@contextmanager
def quick_reading(spark: SparkSession) -> Iterator[None]:
    """Within it, the reader of expressions remembers answers about classes."""
    reader: Any = catalyst_expressions
    common: Any = common_expressions
    rules: Any = spark_rules
    looked_at: Any = constants
    simple_name, is_instance_of = catalyst.simple_name, reader.is_instance_of
    computed_first = reader.computed_first
    without_null_sets = rules.without_null_sets
    finder = java_class(spark, "NullSets", _SOURCE).newInstance()
    finder.names(",".join(sorted(constants._SETS)))

    def name_of(obj: Any) -> str:
        known = obj.__dict__.get("_name_of_class")
        if known is None:
            known = obj.__dict__["_name_of_class"] = simple_name(obj)
        return str(known)

    def is_a(gateway: Any, obj: Any, class_name: str) -> bool:
        if (kinds := obj.__dict__.get("_kinds")) is not None:
            return class_name in kinds
        key = (name_of(obj), class_name)
        if key not in _classes:
            _classes[key] = bool(is_instance_of(gateway, obj, class_name))
        return _classes[key]

    def common_first(gateway: Any, columns: Any, node: Any) -> list[str]:
        """Most trees have nothing that Spark could compute first."""
        return computed_first(gateway, columns, node) if has_with(gateway, node) else []

    def has_with(gateway: Any, node: Any) -> bool:
        if name_of(node) == "With":
            return True
        of = [node.replacement()] if is_a(gateway, node, _REPLACEABLE) else []
        return any(has_with(gateway, child) for child in (*of, *scala_seq(node.children())))

    def null_sets_hidden(jvm: Any, plan: Any) -> Any:
        """The engine looks at all nodes, here at those that may be such sets alone."""
        found = list(finder.of(plan))
        if not found:
            return plan
        expressions, looked_at._expressions = looked_at._expressions, lambda plan: iter(found)
        try:
            return without_null_sets(jvm, plan)
        finally:
            looked_at._expressions = expressions

    for module in (reader, common):
        module.simple_name, module.is_instance_of = name_of, is_a
    reader.computed_first, rules.without_null_sets = common_first, null_sets_hidden
    try:
        with names_remembered():
            yield
    finally:
        for module in (reader, common):
            module.simple_name, module.is_instance_of = simple_name, is_instance_of
        reader.computed_first, rules.without_null_sets = computed_first, without_null_sets
