"""Finds fields that failing messages have or lack, unlike other messages of their topic.

A feature is a text: the path of a field of a JSON object (`customer.id`), or a path with its value
(`country=PL`). Only fields of the object, and of the objects directly in it, are used.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name

# The maximum number of features of a message.
FEATURES_MAX: Final = 100
# Longer names and values are no features, because long values seldom repeat.
NAME_LENGTH_MAX: Final = 60
VALUE_LENGTH_MAX: Final = 40
# The maximum number of features that are kept for a cluster.
KEPT_MAX: Final = 3
# The number of the largest clusters whose features are compared.
COMPARED_MAX: Final = 50
# A feature is kept if at least this part of the failing messages has it, and if it is this many
# times more frequent among them than among all messages.
SUPPORT_MIN: Final = 0.9
LIFT_MIN: Final = 1.5

CLUSTER: Final = ("topic", "status", "error", "shape")
_MAP: Final = "map<string,string>"


def features_of(text: Column) -> Column:
    """Return an expression: the features of a body that is text; empty if it is no JSON object."""
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
    """Return an expression: the features of one field; empty if its path is long or has a `=`."""
    is_plain = (F.length(path) <= NAME_LENGTH_MAX) & ~path.contains("=")
    is_short = value.isNotNull() & (F.length(value) <= VALUE_LENGTH_MAX)
    is_short &= ~F.startswith(value, F.lit("{")) & ~F.startswith(value, F.lit("["))
    with_value = F.when(is_short, F.array(path, F.concat(path, F.lit("="), value)))
    return F.when(is_plain, F.coalesce(with_value, F.array(path))).otherwise(F.array())


def distinguishing(clusters: DataFrame, *, failing: DataFrame, passing: DataFrame) -> DataFrame:
    """Return, for each of the largest clusters, the fields that failing messages have or lack.

    The result has the columns of a cluster, and `fields` (JSON). If several fields distinguish a
    cluster equally, those with the shortest paths are kept. A topic without passing messages has no
    such fields.

    Args:
        clusters: The clusters of failures.
        failing: The failing messages, with the columns of their cluster, and `features`.
        passing: Messages that did not fail, with the columns `topic` and `features`.
    """
    largest = clusters.orderBy(F.desc("messages"), *CLUSTER).limit(COMPARED_MAX)
    some = F.broadcast(largest.select(*CLUSTER, _id_of().alias("cluster")))
    same = [F.col(f"f.{name}").eqNullSafe(F.col(f"c.{name}")) for name in CLUSTER]
    failed = failing.alias("f").join(some.alias("c"), same, "inner").select("cluster", "features")
    total = failed.groupBy("cluster").agg(F.count(F.lit(1)).alias("failed"))
    found = failed.select("cluster", F.explode("features").alias("feature"))
    counts = found.groupBy("cluster", "feature").agg(F.count(F.lit(1)).alias("having"))
    others = passing.groupBy("topic").agg(F.count(F.lit(1)).alias("passed"))
    of_others = passing.select("topic", F.explode("features").alias("feature"))
    of_others = of_others.groupBy("topic", "feature").agg(F.count(F.lit(1)).alias("passing"))
    known = some.join(total, "cluster", "inner").join(others, "topic", "inner")
    either = counts.select("cluster", "feature").unionByName(
        known.join(of_others, "topic", "inner").select("cluster", "feature")
    )
    compared = (
        known.join(either.distinct(), "cluster", "inner")
        .join(counts, ["cluster", "feature"], "left")
        .join(of_others, ["topic", "feature"], "left")
    )
    return _kept(compared)


def _id_of() -> Column:
    return F.xxhash64(F.to_json(F.struct(*CLUSTER)))


def with_fields(clusters: DataFrame, fields: DataFrame | None) -> DataFrame:
    """Return the clusters with the column `fields` of `distinguishing`; `[]` if none were found."""
    if fields is None:
        return clusters.withColumn("fields", F.lit("[]"))
    known, one = fields.alias("k"), clusters.alias("c")
    same = [F.col(f"k.{name}").eqNullSafe(F.col(f"c.{name}")) for name in CLUSTER]
    found = F.coalesce(F.col("k.fields"), F.lit("[]")).alias("fields")
    return one.join(known, same, "left").select("c.*", found)


def _kept(compared: DataFrame) -> DataFrame:
    share = F.coalesce("having", F.lit(0)) / F.col("failed")
    among = F.coalesce("passing", F.lit(0)) / F.col("passed")
    shares = compared.withColumns({"share": share, "among": among})
    with_it = shares.withColumns({"present": F.lit(True), "support": F.col("share")})  # noqa: FBT003 - Spark needs a column
    # Only a whole field can be lacking: a message without one value has another one.
    lacks = ~F.col("feature").contains("=")
    without = shares.where(lacks).withColumns(
        {
            "present": F.lit(False),  # noqa: FBT003 - Spark needs a column
            "support": 1 - F.col("share"),
            "among": 1 - F.col("among"),
        }
    )
    both = with_it.unionByName(without)
    # Failing and passing messages have the same weight, however many there are of each.
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
