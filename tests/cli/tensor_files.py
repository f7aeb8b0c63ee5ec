"""Reads and writes safetensors files without libraries."""
import json
import struct


def write_safetensors(path, tensors):
    """tensors: {name: (dtype, shape, bytes)}"""
    head, end = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        begin, end = end, end + len(data)
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def read_safetensors(path):
    """-> {name: (dtype, shape, bytes)}"""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    body = data[8 + size:]
    return {name: (about["dtype"], about["shape"], body[about["data_offsets"][0]:about["data_offsets"][1]])
            for name, about in json.loads(data[8:8 + size]).items() if name != "__metadata__"}


def read_floats(path):
    """-> {name: list of floats} of the f32 tensors"""
    return {name: list(struct.unpack(f"<{len(data) // 4}f", data))
            for name, (dtype, _, data) in read_safetensors(path).items() if dtype == "F32"}
