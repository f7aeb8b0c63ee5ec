#include <algorithm>

#include "text/pipeline.h"
#include "text/tokenizer.h"

namespace makar {
namespace {

// Ids kept as context, so that decoders that look at neighbouring tokens give the same text for the window as
// for the whole.
constexpr size_t kContextIds = 6;
constexpr size_t kMaxWindowIds = 2 * kContextIds + 8;
constexpr size_t kMaxCharacterIds = 4;  // a character has at most four bytes, each with its own id

// Whether the text ends with U+FFFD: perhaps a character whose last bytes are missing.
bool ends_incomplete(std::string_view text) { return text.ends_with("\xEF\xBF\xBD"); }

}  // namespace

StreamDecoder::StreamDecoder(Tokenizer tokenizer, bool skip_special, std::span<const int64_t> context)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {
  for (size_t i = context.size(); i > 0 && ids_.size() < kContextIds; --i) {
    const int64_t id = context[i - 1];
    if (id < 0 || id >= static_cast<int64_t>(tokenizer_.vocab_size())) break;
    if (!skip_special || !tokenizer_.is_special(static_cast<uint32_t>(id)))
      ids_.push_back(static_cast<uint32_t>(id));
  }
  std::reverse(ids_.begin(), ids_.end());
  // A context that ends inside a character would change as the character is completed.
  if (ends_incomplete(tokenizer_.decode(ids_, skip_special_))) ids_.clear();
  emitted_ids_ = ids_.size();
}

std::string StreamDecoder::push(uint32_t id) {
  const Decoder* decoder = tokenizer_.impl().decoder.get();
  if (decoder && decoder->is_byte_level()) {
    pending_ += tokenizer_.decode_bytes({&id, 1}, skip_special_);
    const size_t ready = complete_utf8_prefix(pending_);
    std::string out = to_valid_utf8(std::string_view(pending_).substr(0, ready));
    pending_.erase(0, ready);
    return out;
  }
  ids_.push_back(id);
  const std::string before = tokenizer_.decode({ids_.data(), emitted_ids_}, skip_special_);
  const std::string text = tokenizer_.decode(ids_, skip_special_);
  // An incomplete end may still become a character; after kMaxCharacterIds ids it will not.
  if (text.size() <= before.size() ||
      (ends_incomplete(text) && ids_.size() - emitted_ids_ < kMaxCharacterIds))
    return "";
  std::string out = text.starts_with(before) ? text.substr(before.size()) : "";
  if (ids_.size() > kMaxWindowIds) {
    const size_t drop = ids_.size() - kContextIds;
    // Only the last kContextIds ids stay, unless they decode to nothing.
    const std::string tail = tokenizer_.decode({ids_.data() + drop, kContextIds}, skip_special_);
    if (!tail.empty()) ids_.erase(ids_.begin(), ids_.begin() + static_cast<ptrdiff_t>(drop));
  }
  emitted_ids_ = ids_.size();
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  if (!pending_.empty()) {
    out = to_valid_utf8(pending_);
  } else if (emitted_ids_ < ids_.size()) {
    const std::string before = tokenizer_.decode({ids_.data(), emitted_ids_}, skip_special_);
    const std::string text = tokenizer_.decode(ids_, skip_special_);
    if (text.size() > before.size() && text.starts_with(before)) out = text.substr(before.size());
  }
  pending_.clear();
  ids_.clear();
  emitted_ids_ = 0;
  return out;
}

}  // namespace makar
