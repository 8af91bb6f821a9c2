"""Finds fields that failing messages have or lack, unlike other messages of their topic.

A feature is a text: the path of a field of a JSON object (`customer.id`), or a path with its value
(`country=PL`). Only two levels are used: the fields of the body, and the fields of objects in it.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name

# The maximum number of features of a message.
FEATURES_MAX: Final = 100
# The maximum lengths of names and of values in features. Longer ones are left out, because long
# texts seldom repeat.
NAME_LENGTH_MAX: Final = 60
VALUE_LENGTH_MAX: Final = 40
# The maximum number of features that are kept for one cluster of failing messages.
KEPT_MAX: Final = 3
# The number of clusters whose features are compared. They are the largest clusters.
COMPARED_MAX: Final = 50
# Two conditions for keeping a feature. First, at least this part of the failing messages has it.
# Second, it is this many times more frequent among failing messages than among all messages.
SUPPORT_MIN: Final = 0.9
LIFT_MIN: Final = 1.5

CLUSTER: Final = ("topic", "status", "error", "shape")
_MAP: Final = "map<string,string>"


def features_of(text: Column) -> Column:
    """Return an expression for the features of a body, empty if the body is no JSON object."""
    whole = F.from_json(text, _MAP)
    inside = F.flatten(F.transform(F.map_entries(whole), _of_entry))
    return F.slice(F.array_sort(F.array_distinct(F.coalesce(inside, F.array()))), 1, FEATURES_MAX)


def _of_entry(entry: Column) -> Column:
    name, value = entry["key"], entry["value"]
    deeper = F.transform(
        F.map_entries(F.from_json(value, _MAP)),
        lambda each: _of_field(F.concat(name, F.lit("."), each["key"]), each["value"]),
    )
    return F.concat(_of_field(name, value), F.coalesce(F.flatten(deeper), F.array()))


def _of_field(path: Column, value: Column) -> Column:
    """Return an expression for the features of one field.

    It is empty if the path of the field is too long, or contains `=`.
    """
    is_plain = (F.length(path) <= NAME_LENGTH_MAX) & ~path.contains("=")
    is_short = value.isNotNull() & (F.length(value) <= VALUE_LENGTH_MAX)
    is_short &= ~F.startswith(value, F.lit("{")) & ~F.startswith(value, F.lit("["))
    with_value = F.when(is_short, F.array(path, F.concat(path, F.lit("="), value)))
    return F.when(is_plain, F.coalesce(with_value, F.array(path))).otherwise(F.array())


def distinguishing(clusters: DataFrame, *, failing: DataFrame, passing: DataFrame) -> DataFrame:
    """Return, for each of the largest clusters, the fields that failing messages have or lack.

    The result has the columns of a cluster, and `fields` (JSON). If several fields distinguish a
    cluster equally well, the fields with the shortest paths are kept. A topic without passing
    messages has no distinguishing fields.

    Args:
        clusters: The clusters of the failing messages.
        failing: The failing messages, with the columns of their cluster, and `features`.
        passing: Messages that did not fail, with the columns `topic` and `features`.
    """
    largest = clusters.orderBy(F.desc("messages"), *CLUSTER).limit(COMPARED_MAX)
    passed = passing.groupBy("topic").agg(F.count(F.lit(1)).alias("passed"))
    some = largest.select(*CLUSTER, _id_of().alias("cluster"), F.col("messages").alias("failed"))
    some = F.broadcast(some.join(passed, "topic", "inner"))
    same = [F.col(f"f.{name}").eqNullSafe(F.col(f"c.{name}")) for name in CLUSTER]
    failed = failing.alias("f").join(some.alias("c"), same, "inner")
    having = _feature_counts(failed, "cluster").withColumn("passing", F.lit(0))
    others = _feature_counts(passing, "topic").withColumnRenamed("having", "passing")
    others = some.select("topic", "cluster").join(others, "topic", "inner").drop("topic")
    either = having.unionByName(others.withColumn("having", F.lit(0)))
    sums = either.groupBy("cluster", "feature").agg(
        F.sum("having").alias("having"), F.sum("passing").alias("passing")
    )
    return _kept(sums.join(some, "cluster", "inner"))


def _feature_counts(messages: DataFrame, group: str) -> DataFrame:
    """Return, for each value of the column `group`, how many messages have each feature.

    The number is in the column `having`.
    """
    each = messages.select(group, F.explode("features").alias("feature"))
    return each.groupBy(group, "feature").agg(F.count(F.lit(1)).alias("having"))


def _id_of() -> Column:
    return F.xxhash64(F.to_json(F.struct(*CLUSTER)))


def with_fields(clusters: DataFrame, fields: DataFrame | None) -> DataFrame:
    """Return the clusters with the column `fields`. It is `[]` if a cluster has no such fields.

    The argument `fields` is the result of `distinguishing`. If it is None, no cluster has fields.
    """
    if fields is None:
        return clusters.withColumn("fields", F.lit("[]"))
    known, one = fields.alias("k"), clusters.alias("c")
    same = [F.col(f"k.{name}").eqNullSafe(F.col(f"c.{name}")) for name in CLUSTER]
    found = F.coalesce(F.col("k.fields"), F.lit("[]")).alias("fields")
    return one.join(known, same, "left").select("c.*", found)


def _kept(compared: DataFrame) -> DataFrame:
    both = compared.select(*CLUSTER, "cluster", "feature", F.inline(_with_and_without()))
    # Give failing and passing messages the same weight, although there may be many more of one
    # kind.
    lift = 2 * F.col("support") / (F.col("support") + F.col("among"))
    good = both.withColumn("lift", lift).where(
        (F.col("support") >= SUPPORT_MIN) & (F.col("lift") >= LIFT_MIN)
    )
    order = (F.desc("lift"), F.desc("support"), F.length("feature"), F.col("feature"))
    ranked = good.withColumn(
        "rank", F.row_number().over(Window.partitionBy("cluster").orderBy(*order))
    )
    field = F.struct(
        "rank",
        "feature",
        "present",
        F.round("support", 4).alias("support"),
        F.round("among", 4).alias("among"),
        F.round("lift", 4).alias("lift"),
    )
    kept = ranked.where(F.col("rank") <= KEPT_MAX).groupBy(*CLUSTER)
    return kept.agg(F.to_json(F.array_sort(F.collect_list(field))).alias("fields"))


def _with_and_without() -> Column:
    """Return an expression: which parts of failing and passing messages have or lack a feature."""
    share, among = F.col("having") / F.col("failed"), F.col("passing") / F.col("passed")
    with_it = _shares(share, among, is_present=True)
    without = _shares(1 - share, 1 - among, is_present=False)
    # Count a field as lacking only if the whole field is missing. A message that lacks one value of
    # a field has another value.
    lacks = ~F.col("feature").contains("=")
    return F.when(lacks, F.array(with_it, without)).otherwise(F.array(with_it))


def _shares(support: Column, among: Column, *, is_present: bool) -> Column:
    present = F.lit(is_present).alias("present")
    return F.struct(present, support.alias("support"), among.alias("among"))
