// Every kind of tokenizer file, read into one form: the value of a tokenizer.json.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"

namespace makar {

// Chooses by the name and the first bytes: tokenizer.json, SentencePiece .model, .tiktoken, vocab.txt,
// vocab.json beside merges.txt, GGUF, or a folder that holds one of them.
Result<Json> read_tokenizer(const std::string& path);

// A SentencePiece model (protocol buffer).
Result<Json> sentencepiece_to_json(std::string_view bytes, const std::string& place);
// Ranks in tiktoken's text form ("base64 rank" a line) or packed into JSON. `name` chooses the pattern where
// the file does not hold it ("cl100k_base", ...); "" goes by the number of ranks.
Result<Json> tiktoken_to_json(std::string_view text, const std::string& name, const std::string& place);
// GPT-2's vocab.json (or encoder.json) and merges.txt (or vocab.bpe).
Result<Json> vocab_merges_to_json(std::string_view vocab, std::string_view merges, const std::string& place);
// BERT's vocab.txt, one token a line.
Result<Json> bert_vocab_to_json(std::string_view text, bool lowercase, const std::string& place);
// The vocabulary inside a GGUF file.
Result<Json> gguf_to_json(std::string_view bytes, const std::string& place);

}  // namespace makar
