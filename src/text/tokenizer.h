// A tokenizer: text to ids and back, by interpreting the pipeline of a tokenizer.json. All other file formats
// (SentencePiece, tiktoken, vocab.txt, GGUF) are converted to the same pipeline. A Tokenizer is an immutable
// handle: copies share its data, and any number of threads may use it.
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
#include "base/work_budget.h"

namespace makar {

// Half-open range of bytes (or of code points) in the original text.
struct Span {
  uint32_t begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

struct Encoding {
  std::vector<uint32_t> ids;
  std::vector<Span> offsets;      // bytes; whole characters; (0, 0) for tokens added by the post-processor
  std::vector<uint8_t> type_ids;  // usually 0 or 1, set by the post-processor
  std::vector<uint8_t> sequence_ids;    // 0 or 1: the text that the offsets refer to
  std::vector<uint8_t> special_mask;    // 1 for tokens added by the post-processor or padding
  std::vector<uint8_t> attention_mask;  // 0 for padding
  std::vector<Encoding> overflow;       // the truncated rest, in windows of the same length, if requested

  size_t size() const { return ids.size(); }
};

// How strings in the text that spell a special token are treated.
enum class SpecialText {
  kPlain,   // as plain text: never as a control id (for untrusted text)
  kParse,   // as the control id (the behaviour of the Hugging Face library)
  kForbid,  // as an error
};

struct Truncation {
  enum class Strategy { kLongestFirst, kOnlyFirst, kOnlySecond };
  size_t max_length = 512;
  size_t stride = 0;  // tokens that neighbouring windows of the overflow share
  Strategy strategy = Strategy::kLongestFirst;
  bool left = false;
};

struct Padding {
  size_t length = 0;       // 0: to the longest of the batch
  size_t multiple_of = 0;  // 0: no rounding
  bool left = false;
  uint32_t id = 0;
  uint8_t type_id = 0;
  std::string token = "[PAD]";
};

struct EncodeOptions {
  SpecialText special_text = SpecialText::kPlain;
  bool add_special = false;  // apply the post-processor's template: [CLS] ... [SEP]
  bool offsets = true;       // false saves time and leaves Encoding::offsets empty
  std::optional<Truncation> truncation;
  bool overflow = false;  // keep truncated tokens, in Encoding::overflow
  std::optional<Padding> padding;
  uint64_t dropout_seed = 0;   // seed of BPE dropout, if the file enables it
  bool fast_paths = true;      // false runs the whole pipeline stage by stage; the result is the same
  WorkBudget* work = nullptr;  // limits the work of encoding; null: no limit
};

struct AddedToken {
  uint32_t id = 0;
  std::string content;
  std::string matched_text;  // what is matched in the text and decoded; normalised if `normalized`
  bool single_word = false, lstrip = false, rstrip = false, normalized = true, special = false;
};

class Tokenizer {
 public:
  static constexpr size_t kTextLimit = size_t{1} << 31;  // texts must be shorter: offsets have 32 bits

  // Loads any supported file (see read.h), or a model folder with one.
  static Result<Tokenizer> load(const std::string& path);
  // From a parsed tokenizer.json; `place` names it in errors.
  static Result<Tokenizer> from_json(Json json, const std::string& place);

  Result<Encoding> encode(std::string_view text, const EncodeOptions& options = {}) const;
  Result<Encoding> encode_pair(std::string_view first, std::string_view second,
                               const EncodeOptions& options = {}) const;
  // For several pairs with the same first text, which encode_part() encodes once.
  Result<Encoding> encode_part(std::string_view text, const EncodeOptions& options, uint8_t sequence) const;
  Result<Encoding> encode_pair(std::string_view first, const Encoding& first_encoding,
                               std::string_view second, const EncodeOptions& options) const;
  // One result per text, in order, the same for any number of threads. Padding to the longest is over this
  // batch.
  std::vector<Result<Encoding>> encode_batch(std::span<const std::string_view> texts,
                                             const EncodeOptions& options, ThreadPool& pool) const;
  // Appends only the ids: the fast way for training data and servers.
  Status append_ids(std::string_view text, const EncodeOptions& options, std::vector<uint32_t>& ids) const;

  // Valid UTF-8 (invalid bytes become U+FFFD). Unknown ids are skipped.
  std::string decode(std::span<const uint32_t> ids, bool skip_special = false) const;
  // For byte-level models exactly the encoded bytes; for others the same as decode().
  std::string decode_bytes(std::span<const uint32_t> ids, bool skip_special = false) const;

  size_t vocab_size() const;  // one more than the largest id
  std::optional<uint32_t> id(std::string_view token) const;
  std::optional<std::string> token(uint32_t id) const;
  bool is_special(uint32_t id) const;
  const std::vector<AddedToken>& added_tokens() const;
  bool byte_level() const;                              // whether every byte sequence can be encoded exactly
  const std::optional<Truncation>& truncation() const;  // from the file; applied only when set in the options
  const std::optional<Padding>& padding() const;

  // The whole tokenizer as a tokenizer.json value, and the same without vocabulary and merges.
  Json to_json() const;
  const Json& pipeline() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// Converts byte offsets to code-point offsets of the same text.
std::vector<Span> code_point_offsets(std::string_view text, const std::vector<Span>& offsets);

// Decodes a stream of ids; text is returned as soon as its characters are complete. `context`: the ids
// before the stream. Decoders that treat the start of a text differently (SentencePiece drops its first
// space) then continue that text. The text of `context` is not returned.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special = true,
                         std::span<const int64_t> context = {});
  std::string push(uint32_t id);
  std::string finish();  // the rest; incomplete characters become U+FFFD

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::vector<uint32_t> ids_;  // the window needed to decode the next id
  size_t emitted_ids_ = 0;     // ids of the window whose text was already returned
  std::string pending_;        // byte-level: bytes of an incomplete character
};

}  // namespace makar
