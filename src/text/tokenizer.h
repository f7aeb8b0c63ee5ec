// A tokenizer: text to ids and back, by interpreting the pipeline of a tokenizer.json. Every other kind of
// file (SentencePiece, tiktoken, vocab.txt, GGUF) is read into the same pipeline. A Tokenizer is an immutable
// handle: copies share, and any number of threads may use one at once.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/thread_pool.h"

namespace makar {

// Half-open range of bytes (or of code points) in the original text.
struct Span {
  uint32_t begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

struct Encoding {
  std::vector<uint32_t> ids;
  std::vector<Span> offsets;            // bytes; whole characters; (0, 0) for tokens the post-processor added
  std::vector<uint8_t> type_ids;        // 0 or 1 for most, as the post-processor says
  std::vector<uint8_t> sequence_ids;    // 0 or 1: the text that the offsets point into
  std::vector<uint8_t> special_mask;    // 1 for tokens the post-processor or padding added
  std::vector<uint8_t> attention_mask;  // 0 for padding
  std::vector<Encoding> overflow;       // what truncation cut off, in windows of the same length

  size_t size() const { return ids.size(); }
};

// What happens to strings in the text that spell a special token.
enum class SpecialText {
  kPlain,   // they are text like any other and never give a control id (for what users write)
  kParse,   // they become the control id (as the Hugging Face library does)
  kForbid,  // they are an error
};

struct Truncation {
  enum class Strategy { kLongestFirst, kOnlyFirst, kOnlySecond };
  size_t max_length = 512;
  size_t stride = 0;
  Strategy strategy = Strategy::kLongestFirst;
  bool left = false;
};

struct Padding {
  size_t length = 0;       // 0: to the longest of the batch
  size_t multiple_of = 0;  // 0: any
  bool left = false;
  uint32_t id = 0;
  uint8_t type_id = 0;
  std::string token = "[PAD]";
};

struct EncodeOptions {
  SpecialText special_text = SpecialText::kPlain;
  bool add_special = false;  // run the post-processor's template: [CLS] ... [SEP]
  bool offsets = true;       // false saves time and leaves Encoding::offsets empty
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;
  uint64_t dropout_seed = 0;  // of BPE dropout, where the file asks for it
  bool short_ways = true;     // false runs the whole pipeline stage by stage; the result is the same
};

struct AddedToken {
  uint32_t id = 0;
  std::string content;
  std::string normal;  // as it is found in the text and decoded: normalised, when `normalized`
  bool single_word = false, lstrip = false, rstrip = false, normalized = true, special = false;
};

class Tokenizer {
 public:
  static constexpr size_t kTextLimit = size_t{1} << 31;  // texts are shorter: offsets are 32 bits wide

  // Any file this program reads (see read.h), or a model folder that holds one.
  static Result<Tokenizer> load(const std::string& path);
  // The parsed tokenizer.json; `place` names it in errors.
  static Result<Tokenizer> from_json(Json json, const std::string& place);

  Result<Encoding> encode(std::string_view text, const EncodeOptions& options = {}) const;
  Result<Encoding> encode_pair(std::string_view first, std::string_view second,
                               const EncodeOptions& options = {}) const;
  // One result a text, in order, the same at any number of threads. Padding to the longest happens here.
  std::vector<Result<Encoding>> encode_batch(std::span<const std::string_view> texts,
                                             const EncodeOptions& options, ThreadPool& pool) const;
  // Appends the ids alone: the fast way for training data and servers.
  Status append_ids(std::string_view text, const EncodeOptions& options, std::vector<uint32_t>& ids) const;

  // Well-formed UTF-8 (bytes that are not become U+FFFD). Unknown ids are left out.
  std::string decode(std::span<const uint32_t> ids, bool skip_special = false) const;
  // For byte-level models exactly the bytes that were encoded; for others the same as decode().
  std::string decode_bytes(std::span<const uint32_t> ids, bool skip_special = false) const;

  size_t vocab_size() const;  // one more than the largest id
  std::optional<uint32_t> id(std::string_view token) const;
  std::optional<std::string> token(uint32_t id) const;
  bool is_special(uint32_t id) const;
  const std::vector<AddedToken>& added_tokens() const;
  bool byte_level() const;  // every byte sequence has ids of its own
  const std::optional<Truncation>& truncation()
      const;  // as the file says; applied only when put in the options
  const std::optional<Padding>& padding() const;

  // The whole tokenizer as a tokenizer.json value, and the same without the vocabulary and the merges.
  Json to_json() const;
  const Json& pipeline() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// Byte offsets into code-point offsets of the same text.
std::vector<Span> code_point_offsets(std::string_view text, const std::vector<Span>& offsets);

// Decodes a stream of ids; text comes out as soon as its characters are complete.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special = true);
  std::string push(uint32_t id);
  std::string finish();  // what was left, incomplete characters as U+FFFD

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::vector<uint32_t> ids_;  // the window still needed to decode the next id
  size_t emitted_ids_ = 0;     // of the window, how many ids are already text
  std::string pending_;        // byte-level: bytes of an incomplete character
};

}  // namespace makar
