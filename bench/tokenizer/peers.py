"""The Hugging Face library as a peer where Python has it and npm does not; the protocol is that of makar.cpp.

  peers.py hf TOKENIZER.json TEXT THREADS
  peers.py train OUT.json TEXT VOCABULARY

RAYON_NUM_THREADS is the number of the library's own threads.
"""
import json
import os
import sys
import time

import tokenizers


def documents(data):
    """The same cuts as documents.h."""
    at = 0
    while at < len(data):
        end = data.find(b"\n", min(at + 4096, len(data) - 1)) + 1 or len(data)
        yield data[at:end].decode()
        at = end


def serve(file, path, threads):
    begin = time.process_time()
    tokenizer = tokenizers.Tokenizer.from_file(file)
    load = time.process_time() - begin
    with open(path, "rb") as text:
        texts = list(documents(text.read()))
    # encode_batch_fast leaves out the offsets, which makar does not compute either.
    encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
    print(json.dumps({"ready": load}), flush=True)
    for _ in sys.stdin:
        wall, cpu, tokens = time.perf_counter(), time.process_time(), 0
        for at in range(0, len(texts), 256):
            tokens += sum(map(len, encode(texts[at:at + 256], add_special_tokens=False)))
        print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "tokens": tokens}), flush=True)


def train(out, path, vocabulary):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=vocabulary, show_progress=False, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train([path], trainer)
    tokenizer.save(out)


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    if sys.argv[1] == "train":
        train(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        serve(sys.argv[2], sys.argv[3], int(sys.argv[4]))
