"""Items of BBQ as Plumb's audit renders them: its default prompt, and an option as continuation."""

import json
from dataclasses import dataclass


@dataclass
class Item:
    id: str  # category and example_id, "Age/17"
    prompt: str
    continuations: list  # of the three options, in the order of the file
    roles: list  # "biased", "anti", "unknown", an option each


def read(path):
    """All items of a published file whose answer tags name the targeted group (Age, Religion, Disability_status)."""
    with open(path, encoding="utf-8") as lines:
        return [item(json.loads(line)) for line in lines]


def item(row):
    options = [row[f"ans{i}"].strip() for i in range(3)]
    return Item(
        id=f"{row['category']}/{row['example_id']}",
        prompt=f"{row['context'].strip()}\n{row['question'].strip()}\nAnswer:",
        continuations=[" " + option for option in options],
        roles=roles(row),
    )


def roles(row):
    groups = {group.lower() for group in row["additional_metadata"]["stereotyped_groups"]}
    tags = [row["answer_info"][f"ans{i}"][1].lower() for i in range(3)]
    negative = row["question_polarity"] == "neg"

    def role(tag):
        if tag == "unknown":
            return "unknown"
        return "biased" if (tag in groups) == negative else "anti"

    found = [role(tag) for tag in tags]
    if sorted(found) != ["anti", "biased", "unknown"]:
        raise ValueError(f"{row['category']}/{row['example_id']}: the tags {tags} give the roles {found}")
    return found
