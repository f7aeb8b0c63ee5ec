#include "serve/output_filter.h"

#include "base/utf8.h"

namespace makar {
namespace {

constexpr size_t kLongestSentence = 2000, kContext = 1000;  // bytes

// `at`, or the end of the character that `at` is inside of.
size_t character_end(const std::string& text, size_t at) {
  while (at < text.size() && is_utf8_continuation(text[at])) ++at;
  return at;
}

}  // namespace

std::string FilteredText::release(size_t bytes) {
  const std::string sentence = held_.substr(0, bytes);
  held_.erase(0, bytes);
  scanned_ = 0;
  if (filter_->toxicity(before_ + sentence) >= filter_->threshold) {
    rejected_ = true;
    held_.clear();
    return {};
  }
  before_ += sentence;
  if (before_.size() > kContext) before_.erase(0, character_end(before_, before_.size() - kContext));
  return sentence;
}

std::string FilteredText::push(const std::string& text) {
  if (!filter_) return text;
  if (rejected_) return {};
  held_ += text;
  std::string out;
  while (!rejected_ && scanned_ < held_.size()) {
    const char c = held_[scanned_++];
    if (c == '.' || c == '!' || c == '?' || c == '\n')
      out += release(scanned_);
    else if (scanned_ >= kLongestSentence && character_end(held_, scanned_) < held_.size())
      out += release(character_end(held_, scanned_));
  }
  return out;
}

std::string FilteredText::finish() {
  if (!filter_ || rejected_ || held_.empty()) return {};
  return release(held_.size());
}

}  // namespace makar
