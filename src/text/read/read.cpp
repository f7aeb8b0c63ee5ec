#include "text/read/read.h"

#include "base/file.h"
#include "text/field.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace makar {
namespace {

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}
std::string name_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  return name.substr(0, name.find('.'));
}

// The merges file next to a vocab.json or encoder.json.
std::string merges_path(const std::string& path) {
  for (const char* name : {"/merges.txt", "/vocab.bpe"})
    if (is_file(folder_of(path) + name)) return folder_of(path) + name;
  return "";
}

bool is_known_encoding(const std::string& name) {
  for (const char* known : {"gpt2", "r50k_base", "p50k_base", "cl100k_base", "o200k_base", "qwen", "llama3"})
    if (name == known) return true;
  return false;
}

// tokenizer_config.json says whether a BERT vocabulary is uncased.
bool lowercases(const std::string& folder) {
  const std::string path = folder + "/tokenizer_config.json";
  if (!is_file(path)) return true;
  const auto json = read_json(path);
  if (!json.ok()) return true;
  const auto lowercase = bool_field(*json, "do_lower_case", true);
  return !lowercase.ok() || *lowercase;
}

Result<Json> read_json_file(const std::string& path) {
  MAKAR_TRY(const std::string text, read_file(path));
  MAKAR_TRY(Json json, parse_json(text, path));
  if (find_field(json, "model")) return json;
  if (find_field(json, "bpe_ranks")) return tiktoken_to_json(text, "", path);
  const std::string merges = merges_path(path);
  if (merges.empty())
    return error_at(path,
                    "is neither a tokenizer.json nor a vocabulary with a merges.txt in the same folder");
  MAKAR_TRY(const std::string merge_text, read_file(merges));
  return vocab_merges_to_json(text, merge_text, path);
}

Result<Json> read_folder(const std::string& path) {
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model", "spm.model",
                           "sentencepiece.bpe.model", "vocab.json", "encoder.json", "vocab.txt"})
    if (is_file(path + "/" + name)) return read_tokenizer(path + "/" + name);
  return error_of(Error::Kind::kNotFound, path,
                  "has no tokenizer: expected tokenizer.json, tokenizer.model, vocab.json with merges.txt, "
                  "or vocab.txt");
}

}  // namespace

const std::vector<std::string>& tokenizer_file_names() {
  static const std::vector<std::string> names = {
      "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
      // vocabularies: SentencePiece, Marian's pair, WordPiece, BPE, tiktoken, fairseq
      "tokenizer.model", "spiece.model", "spm.model", "sentencepiece.bpe.model", "source.spm", "target.spm",
      "vocab.txt", "vocab.json", "encoder.json", "merges.txt", "vocab.bpe", "tiktoken.model", "qwen.tiktoken",
      "bpe.codes", "dict.txt", "target_vocab.json", "normalizer.json",
      // conversations and images
      "chat_template.jinja", "chat_template.json", "preprocessor_config.json", "processor_config.json"};
  return names;
}

Result<Json> read_tokenizer(const std::string& path) {
  if (is_folder(path)) return read_folder(path);
  if (path.ends_with(".json")) return read_json_file(path);
  MAKAR_TRY(const auto file, MappedFile::open(path));
  const std::string_view bytes(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  if (bytes.starts_with("GGUF")) return gguf_to_json(bytes, path);
  if (path.ends_with(".txt")) {
    if (is_file(folder_of(path) + "/vocab.json") && path.ends_with("merges.txt"))
      return read_json_file(folder_of(path) + "/vocab.json");
    return bert_vocab_to_json(bytes, lowercases(folder_of(path)), path);
  }
  if (bytes.starts_with("{")) return read_json_file(path);
  // Llama 3 names a rank file tokenizer.model: base64 text, while SentencePiece starts with a field tag.
  if (path.ends_with(".tiktoken") || bytes.starts_with("IQ== 0\n"))
    return tiktoken_to_json(bytes, is_known_encoding(name_of(path)) ? name_of(path) : "", path);
  return sentencepiece_to_json(bytes, path);
}

Result<Tokenizer> Tokenizer::load(const std::string& path) {
  MAKAR_TRY(Json json, read_tokenizer(path));
  return from_json(std::move(json), path);
}

}  // namespace makar
