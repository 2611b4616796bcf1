"""Spark's expressions, with all that their reader asks them for, in one answer of the JVM.

The reader of expressions asks dozens of questions for each node, and each of them takes the way to
the JVM and back. Here a class of Java, which Spark's own compiler makes at run time, writes the
answers down for many trees at once. What it has not foreseen is asked as ever.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from tests.spark.java_classes import java_class

_SOURCE: Final = """
import java.util.*;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.types.DataType;

public class Snapshots {
  private final ArrayList objects = new ArrayList();
  private final IdentityHashMap numbers = new IdentityHashMap();
  private final ArrayDeque waiting = new ArrayDeque();
  private final StringBuilder out = new StringBuilder();
  private final HashMap classes = new HashMap();
  private final ArrayList kinds = new ArrayList();

  public Object object(int number) { return objects.get(number); }

  /** A list of classes: [name, names of all that it is]; and one of objects: [number of the class,
   *  {method: value}, names, items]. A value is plain, or [number] for one of the objects, or
   *  {"ask": number} for one that is to be fetched. */
  public String of(Object root) {
    refer(root);
    out.setLength(0);
    out.append('[');
    while (!waiting.isEmpty()) {
      Object next = waiting.poll();
      if (out.length() > 1) out.append(',');
      write(next);
    }
    String objects = out.append(']').toString();
    out.setLength(0);
    for (int i = 0; i < kinds.size(); i++) {
      out.append(i == 0 ? "[[" : ",[");
      Class kind = (Class) kinds.get(i);
      text(kind.getSimpleName());
      out.append(",[");
      LinkedHashSet above = new LinkedHashSet();
      collect(kind, above);
      Iterator names = above.iterator();
      while (names.hasNext()) {
        text((String) names.next());
        if (names.hasNext()) out.append(',');
      }
      out.append("]]");
    }
    return "[" + out.append(']').toString() + "," + objects + "]";
  }

  private void collect(Class kind, LinkedHashSet above) {
    if (kind == null || !above.add(kind.getName())) return;
    collect(kind.getSuperclass(), above);
    Class[] interfaces = kind.getInterfaces();
    for (int i = 0; i < interfaces.length; i++) collect(interfaces[i], above);
  }

  private int number(Class kind) {
    Object known = classes.get(kind);
    if (known != null) return ((Integer) known).intValue();
    int number = kinds.size();
    kinds.add(kind);
    classes.put(kind, Integer.valueOf(number));
    return number;
  }

  private void write(Object object) {
    out.append('[').append(number(object.getClass())).append(",{");
    boolean type = object instanceof DataType;
    boolean lists = object instanceof scala.collection.immutable.Seq && !type;
    boolean product = object instanceof scala.Product && !lists && !type;
    if (object instanceof Expression) {
      Expression node = (Expression) object;
      said("children", node.children());
      said("nullIntolerant", Boolean.valueOf(node.nullIntolerant()));
      said("deterministic", Boolean.valueOf(node.deterministic()));
      try {  // element_at() computes a constant position for it, which may raise
        said("nullable", Boolean.valueOf(node.nullable()));
        said("dataType", node.dataType());
      } catch (RuntimeException error) {
        // whoever asks is told
      }
      if (object instanceof NamedExpression) {
        said("exprId", ((NamedExpression) object).exprId());
      }
      if (object instanceof RuntimeReplaceable) {
        said("replacement", ((RuntimeReplaceable) object).replacement());
      }
    } else if (type) {
      said("sql", ((DataType) object).sql());
      said("json", ((DataType) object).json());
    } else if (!product && !lists) {
      said("toString", object.toString());
    }
    if (out.charAt(out.length() - 1) == ',') out.setLength(out.length() - 1);
    out.append("},");
    if (product) {
      scala.Product parts = (scala.Product) object;
      out.append('[');
      for (int i = 0; i < parts.productArity(); i++) {
        if (i > 0) out.append(',');
        text(parts.productElementName(i));
      }
      out.append("],[");
      for (int i = 0; i < parts.productArity(); i++) {
        if (i > 0) out.append(',');
        value(parts.productElement(i));
      }
      out.append(']');
    } else if (lists) {
      out.append("null,[");
      scala.collection.Iterator items = ((scala.collection.immutable.Seq) object).iterator();
      boolean first = true;
      while (items.hasNext()) {
        if (!first) out.append(',');
        first = false;
        value(items.next());
      }
      out.append(']');
    } else {
      out.append("null,null");
    }
    out.append(']');
  }

  private void said(String name, Object object) {
    text(name);
    out.append(':');
    value(object);
    out.append(',');
  }

  private void value(Object object) {
    if (object == null) out.append("null");
    else if (object instanceof String) text((String) object);
    else if (object instanceof Boolean || object instanceof Integer || object instanceof Long
        || object instanceof Short || object instanceof Byte) out.append(object.toString());
    else if (object instanceof Double || object instanceof Float) {
      String number = object.toString();  // as py4j has it
      out.append(number);
    } else if (object instanceof Number || object instanceof Character
        || object.getClass().isArray()) {
      out.append("{" + (char) 34 + "ask" + (char) 34 + ":").append(refer(object)).append('}');
    } else out.append('[').append(refer(object)).append(']');
  }

  private int refer(Object object) {
    Object known = numbers.get(object);
    if (known != null) return ((Integer) known).intValue();
    int number = objects.size();
    objects.add(object);
    numbers.put(object, Integer.valueOf(number));
    waiting.add(object);
    return number;
  }

  private void text(String value) {
    out.append('"');
    for (int i = 0; i < value.length(); i++) {
      char c = value.charAt(i);
      if (c == '"' || c == 92) out.append((char) 92).append(c);
      else if (c < ' ' || c > 126) {
        String hex = Integer.toHexString(c);
        out.append((char) 92).append('u').append("0000".substring(hex.length())).append(hex);
      } else out.append(c);
    }
    out.append('"');
  }
}
"""


def snapshots(spark: SparkSession, nodes: JavaObject) -> Iterator[JavaObject]:
    """The expressions of a Scala sequence."""
    writer = java_class(spark, "Snapshots", _SOURCE).newInstance()
    classes, records = json.loads(writer.of(nodes))
    kinds = [(name, frozenset(above)) for name, above in classes]
    return iter(_Table(writer, kinds, records).items(0))


class _Table:
    """What the JVM has written down.

    :param writer: the object that has, and still knows what it speaks of.
    :param kinds: of each class its name, and the full names of all that it is.
    """

    def __init__(
        self, writer: Any, kinds: list[tuple[str, frozenset[str]]], records: list[list[Any]]
    ) -> None:
        self.writer = writer
        self.kinds = kinds
        self.records = records
        self._known: dict[int, _Snapshot] = {}

    def value(self, written: Any) -> Any:
        """A plain value, or a snapshot of an object."""
        if isinstance(written, dict):
            return self.writer.object(written["ask"])
        if not isinstance(written, list):
            return written
        (number,) = written
        if number not in self._known:
            self._known[number] = _Snapshot(self, number)
        return self._known[number]

    def items(self, number: int) -> list[Any]:
        """Of a sequence, or of a product."""
        return [self.value(written) for written in self.records[number][3]]


class _Snapshot(JavaObject):
    """An object of the JVM, some of whose methods have been called already."""

    def __init__(self, table: _Table, number: int) -> None:
        kind, said, names, items = table.records[number]
        name, kinds = table.kinds[kind]
        methods = {**said, **dict(zip(names or (), items or (), strict=False))}
        self.__dict__.update(
            _table=table, _number=number, _name_of_class=name, _kinds=kinds, _said=methods,
            _names=names, _items=items,
        )  # fmt: skip

    def _real(self) -> Any:
        if "_object" not in self.__dict__:
            self.__dict__["_object"] = self._table.writer.object(self._number)
        return self.__dict__["_object"]

    def _get_object_id(self) -> Any:
        return self._real()._get_object_id()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._said:
            return lambda: self._table.value(self._said[name])
        return getattr(self._real(), name)

    def size(self) -> Any:
        return len(self._items) if self._is_sequence() else self._real().size()

    def apply(self, *arguments: Any) -> Any:
        if self._is_sequence():
            return self._table.value(self._items[arguments[0]])
        return self._real().apply(*arguments)

    def productArity(self) -> Any:
        return len(self._items) if self._names is not None else self._real().productArity()

    def productElementName(self, index: int) -> Any:
        if self._names is not None:
            return self._names[index]
        return self._real().productElementName(index)

    def productElement(self, index: int) -> Any:
        if self._names is not None:
            return self._table.value(self._items[index])
        return self._real().productElement(index)

    def get(self) -> Any:
        """Of an option."""
        if self._name_of_class == "Some":
            return self._table.value(self._items[0])
        return self._real().get()

    def semanticEquals(self, other: Any) -> Any:
        if isinstance(other, _Snapshot) and (other._table, other._number) == (
            self._table,
            self._number,
        ):
            return self.deterministic()
        return self._real().semanticEquals(other)

    def _is_sequence(self) -> bool:
        return self._names is None and self._items is not None
