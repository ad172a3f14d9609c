"""A reader of pprof's profiles that follows the official profile.proto and nothing else: a check of what we write.

    python pprof.py FILE        prints the sample types, and each sample with its values, labels and stack, as JSON

The numbers of fields are those of github.com/google/pprof/blob/main/proto/profile.proto.
"""

import gzip
import json
import sys

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

# Message, number of a field: its name, and what is in it.
FIELDS = {
    "Profile": {
        1: ("sample_type", "ValueType"), 2: ("sample", "Sample"), 3: ("mapping", "Mapping"), 4: ("location", "Location"),
        5: ("function", "Function"), 6: ("string_table", "string"), 7: ("drop_frames", "int"), 8: ("keep_frames", "int"),
        9: ("time_nanos", "int"), 10: ("duration_nanos", "int"), 11: ("period_type", "ValueType"), 12: ("period", "int"),
        13: ("comment", "ints"), 14: ("default_sample_type", "int"), 15: ("doc_url", "int"),
    },
    "ValueType": {1: ("type", "int"), 2: ("unit", "int")},
    "Sample": {1: ("location_id", "ints"), 2: ("value", "ints"), 3: ("label", "Label")},
    "Label": {1: ("key", "int"), 2: ("str", "int"), 3: ("num", "int"), 4: ("num_unit", "int")},
    "Mapping": {
        1: ("id", "int"), 2: ("memory_start", "int"), 3: ("memory_limit", "int"), 4: ("file_offset", "int"),
        5: ("filename", "int"), 6: ("build_id", "int"), 7: ("has_functions", "int"), 8: ("has_filenames", "int"),
        9: ("has_line_numbers", "int"), 10: ("has_inline_frames", "int"),
    },
    "Location": {
        1: ("id", "int"), 2: ("mapping_id", "int"), 3: ("address", "int"), 4: ("line", "Line"), 5: ("is_folded", "int"),
    },
    "Line": {1: ("function_id", "int"), 2: ("line", "int"), 3: ("column", "int")},
    "Function": {
        1: ("id", "int"), 2: ("name", "int"), 3: ("system_name", "int"), 4: ("filename", "int"), 5: ("start_line", "int"),
    },
}
REPEATED = {"sample_type", "sample", "mapping", "location", "function", "string_table", "label", "line of Location"}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return value, at


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def message(data, kind):
    """The fields of a message, by their names."""
    fields = FIELDS[kind]
    found = {name: [] if what == "ints" or name in REPEATED or f"{name} of {kind}" in REPEATED else 0 for name, what in fields.values()}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        # A file of ours has nothing that the description does not have.
        name, what = fields[number]
        if wire == VARINT:
            value, at = varint(data, at)
            assert what in ("int", "ints"), (kind, name)
            value = signed(value)
            found[name] = [*found[name], value] if what == "ints" else value
            continue
        assert wire == BYTES, (kind, name, wire)
        length, at = varint(data, at)
        part, at = data[at : at + length], at + length
        assert len(part) == length, "the bytes end too early"
        if what == "ints":
            inner = 0
            while inner < length:
                value, inner = varint(part, inner)
                found[name].append(signed(value))
        else:
            value = part.decode() if what == "string" else message(part, what)
            if isinstance(found[name], list):
                found[name].append(value)
            else:
                found[name] = value
    return found


def read(data):
    """A profile as a person would write it down. Raises where a number leads nowhere."""
    profile = message(gzip.decompress(data), "Profile")
    strings = profile["string_table"]
    assert strings[0] == "", "the first string must be empty"
    functions = {it["id"]: it for it in profile["function"]}
    locations = {it["id"]: it for it in profile["location"]}
    mappings = {it["id"] for it in profile["mapping"]}
    assert 0 not in functions and 0 not in locations and len(locations) == len(profile["location"])
    types = [(strings[it["type"]], strings[it["unit"]]) for it in profile["sample_type"]]
    samples = []
    for sample in profile["sample"]:
        assert len(sample["value"]) == len(types)
        stack = []
        for number in sample["location_id"]:
            location = locations[number]
            assert location["mapping_id"] == 0 or location["mapping_id"] in mappings
            for line in location["line"]:
                function = functions[line["function_id"]]
                stack.append([strings[function["filename"]], line["line"], strings[function["name"]]])
        labels = {strings[it["key"]]: strings[it["str"]] or it["num"] for it in sample["label"]}
        samples.append({"values": dict(zip((name for name, _ in types), sample["value"])), "labels": labels, "stack": stack})
    return {
        "types": types, "samples": samples, "time_nanos": profile["time_nanos"], "duration_nanos": profile["duration_nanos"],
        "default": strings[profile["default_sample_type"]],
        "period": [strings[profile["period_type"]["type"]], strings[profile["period_type"]["unit"]], profile["period"]]
        if profile["period_type"] else None,
    }


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        print(json.dumps(read(file.read())))
