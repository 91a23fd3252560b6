#!/usr/bin/env python3
"""Makes an F32 copy of a quantised GGUF model.

Every tensor is dequantised by the gguf package; every key of the metadata is kept but general.file_type, which
becomes ALL_F32. The same input gives the same bytes. Comparisons with PyTorch and finite differences need such a copy:
on quantised weights llama.cpp quantises activations too.

    f32.py IN.gguf OUT.gguf
"""

import argparse
import os

import gguf
import numpy as np

FILE_TYPE = gguf.Keys.General.FILE_TYPE
NOT_COPIED = ("GGUF.", gguf.Keys.General.ARCHITECTURE)  # the writer writes these itself


def copy_metadata(reader, writer):
    for field in reader.fields.values():
        if field.name.startswith(NOT_COPIED):
            continue
        kind = field.types[0]
        item_kind = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        value = int(gguf.LlamaFileType.ALL_F32) if field.name == FILE_TYPE else field.contents()
        writer.add_key_value(field.name, value, kind, sub_type=item_kind)


def dequantize(tensor):
    values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    return np.ascontiguousarray(values, dtype=np.float32)


def convert(source, target):
    reader = gguf.GGUFReader(source)
    unfinished = f"{target}.part"  # renamed once whole, so that a cut run leaves no half model behind
    writer = gguf.GGUFWriter(unfinished, reader.fields["general.architecture"].contents())
    writer.data_alignment = reader.alignment
    copy_metadata(reader, writer)
    for tensor in reader.tensors:
        shape = [int(n) for n in reversed(tensor.shape)]
        n_bytes = 4 * int(tensor.n_elements)
        writer.add_tensor_info(tensor.name, shape, np.dtype(np.float32), n_bytes)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor in reader.tensors:
        writer.write_tensor_data(dequantize(tensor))
    writer.close()
    os.replace(unfinished, target)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="IN.gguf")
    parser.add_argument("target", metavar="OUT.gguf")
    args = parser.parse_args()
    convert(args.source, args.target)


if __name__ == "__main__":
    main()
