"""Writes the first items of the built-in sample as Parquet, the way pyarrow does, for the tests of the Parquet reader.

Usage: python make_parquet.py   (in this folder; needs pyarrow 26)
"""
import json

import pyarrow as pa
import pyarrow.parquet as pq

rows = [json.loads(line) for line in open("../builtin.jsonl", encoding="utf-8")][:48]

pair = pa.list_(pa.string())


def schema(integer):
    return pa.schema([
        ("example_id", integer),
        ("question_index", pa.string()),
        ("question_polarity", pa.string()),
        ("context_condition", pa.string()),
        ("category", pa.string()),
        ("answer_info", pa.struct([("ans0", pair), ("ans1", pair), ("ans2", pair)])),
        ("additional_metadata", pa.struct([
            ("subcategory", pa.string()), ("stereotyped_groups", pa.list_(pa.string())),
            ("version", pa.string()), ("source", pa.string())])),
        ("context", pa.string()),
        ("question", pa.string()),
        ("ans0", pa.string()),
        ("ans1", pa.string()),
        ("ans2", pa.string()),
        ("label", integer),
    ])


# As the data-set hubs write it today, in several row groups …
pq.write_table(pa.Table.from_pylist(rows, schema(pa.int64())), "sample.parquet", compression="snappy", row_group_size=20)
# … and as older programs do: the elements of lists have another name, whole numbers are shorter, no dictionaries.
pq.write_table(pa.Table.from_pylist(rows, schema(pa.int32())), "older.parquet", compression="zstd",
               use_compliant_nested_type=False, use_dictionary=False, data_page_version="2.0")
# A table without three of BBQ's columns.
pq.write_table(pa.Table.from_pylist(rows, schema(pa.int64())).drop_columns(["ans2", "label", "answer_info"]), "no_columns.parquet")
