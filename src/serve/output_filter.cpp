#include "serve/output_filter.h"

#include "base/utf8.h"

namespace makar {
namespace {

constexpr size_t kMaxSentenceBytes = 2000, kContextBytes = 1000;

// `at`, or the end of the character that `at` is inside of.
size_t character_end(const std::string& text, size_t at) {
  while (at < text.size() && is_utf8_continuation(text[at])) ++at;
  return at;
}

}  // namespace

std::string FilteredText::release(size_t bytes) {
  const std::string sentence = pending_.substr(0, bytes);
  pending_.erase(0, bytes);
  scanned_ = 0;
  if (filter_->toxicity(context_ + sentence) >= filter_->threshold) {
    rejected_ = true;
    pending_.clear();
    return {};
  }
  context_ += sentence;
  if (context_.size() > kContextBytes)
    context_.erase(0, character_end(context_, context_.size() - kContextBytes));
  return sentence;
}

std::string FilteredText::push(const std::string& text) {
  if (!filter_) return text;
  if (rejected_) return {};
  pending_ += text;
  std::string out;
  while (!rejected_ && scanned_ < pending_.size()) {
    const char c = pending_[scanned_++];
    if (c == '.' || c == '!' || c == '?' || c == '\n')
      out += release(scanned_);
    else if (scanned_ >= kMaxSentenceBytes && character_end(pending_, scanned_) < pending_.size())
      out += release(character_end(pending_, scanned_));
  }
  return out;
}

std::string FilteredText::finish() {
  if (!filter_ || rejected_ || pending_.empty()) return {};
  return release(pending_.size());
}

}  // namespace makar
