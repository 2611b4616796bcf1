"""Resolved Catalyst expression → :class:`Expr`, read over py4j.

Every Catalyst expression is a Scala case class, so one rule fits all: constructor arguments that
are expressions become children (in the order of ``children``), the others become ``params`` under
their snake-case names. Spark 4.2's ``evalContext`` and 4.1's ``evalMode`` become ``eval_mode``.

What is different on purpose:

- an attribute becomes ``Column`` with its ordinal among the input's columns;
- a ``LambdaFunction`` has its body as only child and the names of its variables in ``arguments``;
  a ``NamedLambdaVariable`` has one of these names, which are unique;
- ``UpdateFields`` (``withField``, ``dropFields``) becomes the struct that it makes;
- ``interpreted`` is set where Spark does not compile what has another error or value then;
- ``null_safe`` is set where Spark skips the arguments behind one that is NULL;
- a call of a Python function becomes a column behind the input's, see
  :mod:`engine.plan.python_functions`;
- aliases vanish; ``With`` is written out (``CommonExpressionRef`` → the expression it refers to),
  or a ``Let`` where that expression is random, or can raise and is computed before all else, see
  :mod:`engine.plan.common_expressions`;
- constant texts that no kernel computes, such as ``version()``, are computed by Spark;
- a date or timestamp plus ``make_interval(...)`` becomes one node, see
  :mod:`engine.expressions.times.made_intervals`;
- a ``RuntimeReplaceable`` such as ``nvl`` is kept when a kernel of its own name supports it (its
  children are then the arguments as the user wrote them, without implicit casts); otherwise what
  it stands for is read in its place.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.java_gateway import JavaObject, is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from engine.expressions.compile import may_raise, unsupported
from engine.expressions.refused import REFUSED
from engine.expressions.registry import KERNELS, Context
from engine.expressions.tree import NONDETERMINISTIC, Expr
from engine.expressions.types import UnsupportedTypeError, cuts_intervals
from engine.plan.array_items import propagates_constant_null, simplified
from engine.plan.calendar_intervals import ADDITIONS, CalendarIntervals
from engine.plan.catalyst import arrow_type, constructor_parts, scala_seq, simple_name
from engine.plan.clock_constants import decided_by_clock
from engine.plan.common_expressions import computed_first, name_of
from engine.plan.java_zones import go_by_java_zones
from engine.plan.literals import literal_value
from engine.plan.refusals import NESTED_MAX, TOO_DEEP
from engine.plan.session_settings import SessionSettings

if TYPE_CHECKING:
    from engine.plan.python_functions import FunctionCalls

_CATALYST = "org.apache.spark.sql.catalyst.expressions"
_NULL_SAFE_KINDS = ("Binary", "Ternary", "Quaternary", "Septenary")
_NULL_SAFE = {"ArrayInsert", "ArrayContains", "ArrayAppend", "ArrayPrepend", "ArrayRemove"}
_NULL_SAFE |= {"StringLocate"}  # whose result is 0 where its start is NULL
_OF_NO_KIND = {"StringTrim", "StringTrimLeft", "StringTrimRight", "ArrayJoin", "Levenshtein"}
_OF_NO_KIND |= {"Sequence", "Concat", "ArraysZip", "MapConcat"}
"""Their classes do not tell how many arguments they have, but they skip these as others do, where
Spark compiles them at least."""
_SKIP_IF_COMPILED = {"Concat", "ArraysZip", "MapConcat"}
"""Of these, Spark evaluates every argument where it interprets them."""
_REPLACED = {"SplitPart"}
"""So does all that Spark puts in the place of these."""
_OTHER_IF_INTERPRETED = {"MakeTimestamp", "Sequence", "Slice"}
"""Where Spark interprets them, they raise another error, or where they did not, or find less."""
DERIVED = {
    "data_type", "schema", "use_string_type_when_empty", "legacy_interval",  # the node's type
    "names", "name", "field", "num_fields", "contains_null",  # that of a child
    "branches",  # children
    "suggested_func_on_fail",  # words of an error
    "random_seed",  # Spark draws another for each batch of a stream
    "variant_allow_duplicate_keys",  # of a type that from_json does not read
}  # fmt: skip
"""Constructor parameters that say nothing which the node does not say by its type and children, or
that does not matter."""
_ERRORS = (Py4JJavaError, PySparkException)
_SHIFT_ZONE = {"FromUTCTimestamp", "ToUTCTimestamp"}
_TRANSPARENT = {"Alias", "KnownNullable", "KnownNotNull", "KnownFloatingPointNormalized"}


class ExpressionReader:
    """Reads expressions over the columns of one plan node.

    :param gateway: the py4j gateway of the session.
    :param columns: exprId → (ordinal, name) of the node's input.
    :param problems: every obstacle that :meth:`read` meets is added here.
    :param calls: collects the calls of Python functions; without it they are an obstacle.
    :param rewritten: whether what stands for a subquery is a column already; else subqueries over
        tables are passed over.
    """

    def __init__(
        self,
        gateway: Any,
        columns: Mapping[int, tuple[int, str]],
        context: Context,
        problems: list[str],
        calls: FunctionCalls | None = None,
        *,
        rewritten: bool = True,
    ) -> None:
        self._gateway = gateway
        self._columns = columns
        self._context = context
        self._problems = problems
        self._calls = calls
        self._rewritten = rewritten
        self._settings = SessionSettings(gateway)
        catalyst = gateway.jvm.org.apache.spark.sql.catalyst
        self._current_like = catalyst.trees.TreePattern.CURRENT_LIKE()
        go_by_java_zones(gateway)
        self._common: dict[str, Expr] = {}
        self._first: dict[str, Expr | None] = {}
        self._above: list[JavaObject] = []

    def read(self, node: JavaObject, *, in_place: bool = False) -> Expr:
        """Convert one expression. What cannot be evaluated is added to the problems.

        :param in_place: common expressions are not computed before the rest.
        """
        obstacles: list[str] = []
        self._above = []
        first = [] if in_place else computed_first(self._gateway, self._columns, node)
        self._first = dict.fromkeys(first)
        expr = self._convert(node, obstacles)
        for name, value in reversed(self._first.items()):
            if value is not None and any(each.params.get("name") == name for each in expr.walk()):
                expr = _let(name, value, expr)
        if not obstacles:
            too_deep = expr.depth() > NESTED_MAX
            obstacles = [f"it {TOO_DEEP}"] if too_deep else unsupported(expr, self._context)
        if obstacles:
            text = (node.child() if simple_name(node) == "Alias" else node).sql()
            reasons = dict.fromkeys(obstacles)
            self._problems.extend(f"the expression {text}: {why}" for why in reasons)
        return expr

    def _convert(self, node: JavaObject, obstacles: list[str]) -> Expr:
        self._above.append(node)
        expr = self._converted(node, obstacles)
        self._above.pop()
        return expr

    def _converted(self, node: JavaObject, obstacles: list[str]) -> Expr:
        op = simple_name(node)
        if op in _TRANSPARENT:
            return self._convert(node.child(), obstacles)
        if op == "AttributeReference":
            return self._column(node, obstacles)
        if op == "AggregateExpression" and node.resultId().id() in self._columns:
            return self._column(node.resultAttribute(), obstacles)
        if op == "PythonUDF" and self._calls is not None:
            return self._calls.call(node, self._convert, obstacles)
        if op == "With":
            return self._with(node, obstacles)
        if op == "LambdaFunction":
            return self._lambda(node, obstacles)
        if op == "UpdateFields":
            return self._convert(node.evalExpr(), obstacles)
        if op == "CommonExpressionRef":
            return self._common[name_of(node)]
        if op in REFUSED and op not in KERNELS:
            return self._refused(op, node, obstacles)
        if self._is_a(node, f"{_CATALYST}.RuntimeReplaceable"):
            return self._replaceable(op, node, obstacles)
        if op == "InSubquery" or self._is_a(node, f"{_CATALYST}.PlanExpression"):
            return self._subquery(op, node, obstacles)
        dtype = self._dtype(node, obstacles)
        if op == "Literal":
            value = literal_value(node, dtype)
            return Expr(op, (), dtype, value is None, {"value": value})
        if op == "NamedLambdaVariable":
            return Expr(op, (), dtype, node.nullable(), {"name": _variable_name(node)})
        if op == "RaiseError":
            return self._raise_error(node, dtype, obstacles)
        is_text = op not in KERNELS and dtype == pa.string() and node.foldable()
        if is_text and not node.containsPattern(self._current_like):
            try:  # ``version()``, ``schema_of_json('...')``: known before any row comes
                text = node.eval(None)
                known = None if text is None else str(text.toString())
                return Expr("Literal", (), dtype, False, {"value": known})
            except _ERRORS:  # so does it in each row: it is refused as if it was no constant
                pass
        if op == "NormalizeNaNAndZero":  # the one value of which it makes another is -0.0
            zero = Expr("Literal", (), dtype, False, {"value": 0.0})
            number = self._convert(node.child(), obstacles)
            return Expr("Add", (number, zero), dtype, node.nullable(), {"eval_mode": "LEGACY"})
        if op == "TypedNullLiteral":
            return Expr("Literal", (), dtype, True, {"value": None})
        if op in ADDITIONS:
            intervals = CalendarIntervals(
                lambda each: self._convert(each, obstacles),
                lambda name, each: self._params(name, each, obstacles),
                self._of,
            )
            if (later := intervals.later(op, node, dtype)) is not None:
                return later
        if op in _SHIFT_ZONE and self._is_of_no_zone(node):
            return Expr("Literal", (), dtype, True, {"value": None})
        children = self._convert_all(scala_seq(node.children()), obstacles)
        if op == "Cast" and children[0].dtype.equals(dtype, check_metadata=True):
            source, target = node.child().dataType(), node.dataType()
            if cuts_intervals(source.json(), target.json()):
                obstacles.append(
                    f"casting {source.sql()} to {target.sql()} is not supported: units of the"
                    " interval would be cut off"
                )
            return children[0]
        params = self._params(op, node, obstacles)
        if len(children) > 1 and self._skips_arguments(op, node):
            params["null_safe"] = True
        if op in _OTHER_IF_INTERPRETED and self._is_interpreted():
            params["interpreted"] = True
        if op == "CreateMap" and any(map(_can_fail, children)) and self._is_interpreted():
            op = "MapInTurn"
        if op == "Levenshtein" and len(children) > 2 and self._is_interpreted():
            zero = Expr("Literal", (), dtype, False, {"value": 0})  # Spark takes NULL for it there
            limit = Expr("Coalesce", (children[2], zero), dtype, False)
            children = (*children[:2], limit)
        made = Expr(op, children, dtype, _nullable(node), params)
        return decided_by_clock(self._gateway, made, node, _can_fail)

    def parameters(self, node: JavaObject, reads: Collection[str] = ()) -> dict[str, Any]:
        """Constructor arguments that are no expressions, by name; without those that are not
        set. And the settings among what is read."""
        given = {
            parameter_name(name): self._plain(value)
            for name, value in constructor_parts(node)
            if self._says_something(value)
        }
        return given | self._settings_in(reads)

    def _settings_in(self, reads: Collection[str]) -> dict[str, Any]:
        return {key: self._settings.value(key) for key in reads if "." in key}

    def _of(self, node: JavaObject, *names: str) -> dict[str, Any]:
        """Constructor arguments by name; None for what the node does not have."""
        found = {parameter_name(name): value for name, value in constructor_parts(node)}
        return {name: self._plain(found.get(name)) for name in names}

    def _subquery(self, op: str, node: JavaObject, obstacles: list[str]) -> Expr:
        """A column if a join was put in its place, see :mod:`engine.plan.subqueries`."""
        if op == "ScalarSubquery" and node.exprId().id() in self._columns:
            return self._column(node, obstacles)
        if self._rewritten:
            obstacles.append("Spark's optimizer makes no join of a subquery at this place")
        params = {"value": None}
        return Expr("Literal", (), self._dtype(node, obstacles), True, params)

    def _with(self, node: JavaObject, obstacles: list[str]) -> Expr:
        """What has the same value each time is written out."""
        drawn: dict[str, Expr] = {}
        for definition in scala_seq(node.defs()):
            name = name_of(definition)
            value = self._convert(definition.child(), obstacles)
            is_random = any(each.op in NONDETERMINISTIC for each in value.walk())
            if name in self._first and (is_random or _can_fail(value)):
                self._first[name] = value
            elif is_random:
                drawn[name] = value
            if self._first.get(name) is value or is_random:
                params = {"name": name}
                value = Expr("NamedLambdaVariable", (), value.dtype, value.nullable, params)
            self._common[name] = value
        body = self._convert(node.child(), obstacles)
        for name, value in reversed(drawn.items()):
            body = _let(name, value, body)
        return body

    def _skips_arguments(self, op: str, node: JavaObject) -> bool:
        """Whether Spark evaluates an argument only where those before it are not NULL."""
        if op in _OF_NO_KIND:
            return op not in _SKIP_IF_COMPILED or not self._is_interpreted()
        is_one = any(self._is_a(node, f"{_CATALYST}.{kind}Expression") for kind in _NULL_SAFE_KINDS)
        return is_one and (bool(node.nullIntolerant()) or op in _NULL_SAFE)

    def _is_of_no_zone(self, node: JavaObject) -> bool:
        """Whether the zone is a constant NULL, for which Spark compiles nothing else."""
        _, zone = scala_seq(node.children())
        if not zone.foldable() or self._is_interpreted():
            return False
        try:
            return zone.eval(None) is None
        except _ERRORS:
            return False

    def _is_interpreted(self) -> bool:
        """Whether Spark evaluates the present node without compiling it."""
        return any(map(self._interprets, self._above))

    def _interprets(self, node: JavaObject) -> bool:
        """Whether Spark does not compile this node, and so nothing that is below it."""
        if self._is_a(node, f"{_CATALYST}.codegen.CodegenFallback"):
            return True
        # What is among the arguments of what stands for it says nothing about that itself.
        is_replaced = self._is_a(node, f"{_CATALYST}.RuntimeReplaceable")
        return is_replaced and self._interprets(node.replacement())

    def _propagates_null(self, node: JavaObject, arguments: Sequence[JavaObject]) -> bool:
        """Whether this is a call in Java with these arguments, of which Spark's compiled code
        evaluates none behind one that is NULL."""
        if simple_name(node) not in ("Invoke", "StaticInvoke") or not node.propagateNull():
            return False
        passed = list(scala_seq(node.arguments()))[: len(arguments)]
        return len(passed) == len(arguments) and all(
            mine.semanticEquals(other) for mine, other in zip(arguments, passed, strict=True)
        )

    def _convert_all(self, nodes: Iterable[JavaObject], obstacles: list[str]) -> tuple[Expr, ...]:
        return tuple(self._convert(node, obstacles) for node in nodes)

    def _refused(self, op: str, node: JavaObject, obstacles: list[str]) -> Expr:
        """That it is refused is worth more than that its type is; so is what is wrong below."""
        expr = Expr(op, self._convert_all(self._arguments(node), obstacles))
        obstacles += unsupported(expr, self._context)
        return expr

    def _arguments(self, node: JavaObject) -> list[JavaObject]:
        """As the user wrote them."""
        return [
            argument
            for name, part in constructor_parts(node)
            if name != "replacement"
            for argument in self._expressions_in(part)
        ]

    def _replaceable(self, op: str, node: JavaObject, obstacles: list[str]) -> Expr:
        """Ours if it can be evaluated, else what Spark puts in its place if that can be, else
        ours again: the user wrote that name, so the refusal has to speak of it."""
        arguments = self._arguments(node)
        mine: list[str] = []
        calls = 0 if self._calls is None else len(self._calls)
        replacement = node.replacement()
        if op == "Get":
            replacement = simplified(self._gateway, replacement)
        dtype = self._dtype(replacement, mine)
        children = self._convert_all(arguments, mine)
        outer = Expr(op, children, dtype, _nullable(replacement), self._params(op, node, mine))
        if op in KERNELS and not mine and not unsupported(outer, self._context):
            fails_late = any(may_raise(child) for child in children[1:])
            propagates = self._propagates_null(replacement, arguments)
            if propagates and propagates_constant_null(self._gateway, children):
                return Expr("Literal", (), dtype, True, {"value": None})
            skips = propagates and fails_late and not self._is_interpreted()
            if skips or (fails_late and op in _REPLACED):
                outer = replace(outer, params={**outer.params, "null_safe": True})
            return decided_by_clock(self._gateway, outer, replacement, _can_fail, propagates)
        if self._calls is not None:
            self._calls.forget(calls)
        theirs: list[str] = []
        expr = self._convert(replacement, theirs)
        if not theirs and expr.op in KERNELS:
            theirs = unsupported(expr, self._context)
            if not theirs:
                return expr
        obstacles += mine or ([] if op in KERNELS else theirs)
        return outer

    def _raise_error(self, node: JavaObject, dtype: pa.DataType, obstacles: list[str]) -> Expr:
        """``raise_error(message)``: the children are the error class and the message."""
        error_class, parameters = scala_seq(node.children())
        pair = list(scala_seq(parameters.children()))
        if simple_name(parameters) != "CreateMap" or len(pair) != 2:
            obstacles.append("raise_error takes a message only")
            return Expr("RaiseError")
        children = self._convert_all((error_class, pair[1]), obstacles)
        return Expr("RaiseError", children, dtype)

    def _column(self, node: JavaObject, obstacles: list[str]) -> Expr:
        dtype = self._dtype(node, obstacles)
        ordinal, name = self._columns[node.exprId().id()]
        params = {"ordinal": ordinal, "name": name}
        return Expr("Column", (), dtype, node.nullable(), params)

    def _lambda(self, node: JavaObject, obstacles: list[str]) -> Expr:
        body = self._convert(node.function(), obstacles)
        names = tuple(_variable_name(variable) for variable in scala_seq(node.arguments()))
        return Expr("LambdaFunction", (body,), body.dtype, body.nullable, {"arguments": names})

    def _dtype(self, node: JavaObject, obstacles: list[str]) -> pa.DataType:
        try:
            return arrow_type(node.dataType())
        except UnsupportedTypeError as error:
            obstacles.append(str(error))
            return pa.null()

    def _expressions_in(self, value: Any) -> Iterator[JavaObject]:
        if self._is_expression(value):
            yield value
        elif isinstance(value, JavaObject) and simple_name(value) == "Some":
            yield from self._expressions_in(value.get())
        elif self._is_a(value, "scala.collection.immutable.Seq"):
            for item in scala_seq(value):
                yield from self._expressions_in(item)

    def _params(self, op: str, node: JavaObject, obstacles: list[str]) -> dict[str, Any]:
        """What the kernel reads. What it does not read, and Spark does, is an obstacle."""
        kernel = KERNELS.get(op)
        if kernel is None:
            return {}
        params: dict[str, Any] = {}
        for name, value in constructor_parts(node):
            name = parameter_name(name)
            if name in kernel.reads:
                params[name] = self._plain(value)
            elif name not in DERIVED and self._says_something(value):
                told = self._plain(value)
                obstacles.append(f"{op} does not look at {name}, which is {told!r} here")
        params |= self._settings_in(kernel.reads)
        for key in kernel.presumes:
            if (value := self._settings.other_than_default(key)) is not None:
                told = f"{op} does not look at {key}, which is {value} in this session"
                obstacles.append(f"{told}: unset it")
        return params

    def _says_something(self, value: Any) -> bool:
        """Beyond expressions, which are children."""
        is_child = next(self._expressions_in(value), None) is not None
        return not is_child and self._plain(value) not in (None, ())

    def _plain(self, value: Any) -> Any:
        """A constructor argument as plain Python data; its text if it is none."""
        if not isinstance(value, JavaObject):
            return bytes(value) if isinstance(value, bytearray) else value
        kind = simple_name(value)
        if kind == "Some":
            return self._plain(value.get())
        if kind == "NumericEvalContext":
            return self._plain(value.evalMode())
        if kind == "None$":
            return None
        if self._is_a(value, "org.apache.spark.sql.types.DataType"):
            try:
                return arrow_type(value)
            except UnsupportedTypeError:
                return value.json()
        if self._is_a(value, "scala.collection.Map"):
            pairs = scala_seq(value.toSeq())
            return {self._plain(pair._1()): self._plain(pair._2()) for pair in pairs}
        if self._is_a(value, "scala.collection.immutable.Seq"):
            return tuple(self._plain(item) for item in scala_seq(value))
        return value.toString()

    def _is_expression(self, value: Any) -> bool:
        return self._is_a(value, f"{_CATALYST}.Expression")

    def _is_a(self, value: Any, class_name: str) -> bool:
        return isinstance(value, JavaObject) and is_instance_of(self._gateway, value, class_name)


def _nullable(node: JavaObject) -> bool:
    """As Spark says, which may have to compute a constant for it that raises."""
    try:
        return bool(node.nullable())
    except _ERRORS:
        return True


def _let(name: str, value: Expr, body: Expr) -> Expr:
    return Expr("Let", (value, body), body.dtype, body.nullable, {"name": name})


def _can_fail(expr: Expr) -> bool:
    return all(each.op in KERNELS for each in expr.walk()) and may_raise(expr)


def _variable_name(variable: JavaObject) -> str:
    return f"{variable.name()}#{variable.exprId().id()}"


def parameter_name(name: str) -> str:
    """How a constructor parameter of Spark's is called in :attr:`Expr.params`."""
    if name == "evalContext":
        return "eval_mode"
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
