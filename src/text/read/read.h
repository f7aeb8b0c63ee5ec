// Reads all kinds of tokenizer files into one form: the contents of a tokenizer.json.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace makar {

// Chooses by name and first bytes: tokenizer.json, SentencePiece .model, .tiktoken, vocab.txt, vocab.json
// with merges.txt, GGUF, or a folder with one of them.
Result<Json> read_tokenizer(const std::string& path);

// The file names of tokenizers, chat templates and image processors in a model's folder, in the formats of
// makar and of other programs; a copy of the model needs those that exist.
const std::vector<std::string>& tokenizer_file_names();

// A SentencePiece model (protocol buffer).
Result<Json> sentencepiece_to_json(std::string_view bytes, const std::string& place);
// Ranks in tiktoken's text form (one "base64 rank" per line) or packed into JSON. `name` selects the pattern
// when the file has none ("cl100k_base", ...); "" decides by the number of ranks.
Result<Json> tiktoken_to_json(std::string_view text, const std::string& name, const std::string& place);
// GPT-2's vocab.json (or encoder.json) and merges.txt (or vocab.bpe).
Result<Json> vocab_merges_to_json(std::string_view vocab, std::string_view merges, const std::string& place);
// BERT's vocab.txt, one token per line.
Result<Json> bert_vocab_to_json(std::string_view text, bool lowercase, const std::string& place);
// The vocabulary inside a GGUF file.
Result<Json> gguf_to_json(std::string_view bytes, const std::string& place);

}  // namespace makar
