"""Control vectors as other programs write them, and an independent look at Plumb's own files.

    python3 control_vectors.py write   makes repeng.gguf and cvector-generator.gguf with the gguf package
    python3 control_vectors.py check   reads additive.gguf, projection.gguf and exported.gguf, which `go test -run Golden -update` writes
"""

import pathlib
import sys

import gguf
import numpy as np

here = pathlib.Path(__file__).parent


def direction(layer):
    """Four components that tell the layer."""
    return np.array([layer + 0.5, -1.25, 0.0, 3.0], dtype=np.float32)


def write(name, hint, layers, counted):
    writer = gguf.GGUFWriter(here / name, "controlvector")
    writer.add_string("controlvector.model_hint", hint)
    (writer.add_int32 if counted == "int32" else writer.add_uint32)("controlvector.layer_count", len(layers))
    for block, number in layers:
        writer.add_tensor(f"direction.{number}", direction(block))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def content(name):
    reader = gguf.GGUFReader(here / name)
    for tensor in reader.tensors:
        assert tensor.tensor_type == gguf.GGMLQuantizationType.F32 and len(tensor.shape) == 1, tensor
    return ({key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")},
            {tensor.name: tensor.data for tensor in reader.tensors})


def check():
    keys, tensors = content("additive.gguf")
    assert keys["general.architecture"] == "controlvector" and keys["controlvector.layer_count"] == 2
    assert keys["plumb.operator"] == "add" and keys["plumb.layers"] == [1, 4] and keys["plumb.weights"] == [1.0, 0.5]
    assert keys["plumb.fit.templates"] == ["Age/1", "Age/7"] and keys["plumb.fit.left_out.counts"] == [1, 3]
    assert list(tensors) == ["direction.1", "direction.4"]
    np.testing.assert_array_equal(tensors["direction.1"], np.float32([-3, 0, -4]))
    np.testing.assert_array_equal(tensors["direction.4"], np.float32([0, -0.5, 0]))

    keys, tensors = content("projection.gguf")
    assert keys["plumb.operator"] == "project" and keys["plumb.norms"] == [5.0, 1.0] and keys["plumb.weights"] == [1.0, 0.5]
    assert list(tensors) == ["plumb.direction.1", "plumb.direction.4"]
    np.testing.assert_array_equal(tensors["plumb.direction.1"], np.float32([-0.6, 0, -0.8]))

    keys, tensors = content("exported.gguf")
    assert not [key for key in keys if key.startswith("plumb.")]
    np.testing.assert_array_equal(tensors["direction.1"], np.float32([-6, 0, -8]))
    np.testing.assert_array_equal(tensors["direction.4"], np.float32([0, -1, 0]))
    print("the files read as they should")


if sys.argv[1:] == ["write"]:
    write("repeng.gguf", "mistral", [(block, block) for block in (2, 1)], "uint32")
    write("cvector-generator.gguf", "llama", [(block, block + 1) for block in range(3)], "int32")
elif sys.argv[1:] == ["check"]:
    check()
else:
    sys.exit(__doc__)
