#include "llm/text_stream.h"

#include <algorithm>

namespace makar {

TextStream::TextStream(Tokenizer tokenizer, std::vector<std::string> stops, bool skip_special,
                       std::span<const int64_t> context)
    : decoder_(std::move(tokenizer), skip_special, context), stops_(std::move(stops)) {
  std::erase(stops_, std::string());
}

std::string TextStream::push(int64_t id) {
  if (stopped_) return {};
  held_back_ += decoder_.push(static_cast<uint32_t>(id));
  return release(false);
}

std::string TextStream::finish() {
  if (stopped_) return {};
  held_back_ += decoder_.finish();
  return release(true);
}

std::string TextStream::release(bool all) {
  size_t first = std::string::npos;
  for (const std::string& stop : stops_)
    if (const size_t at = held_back_.find(stop); at < first) first = at, stop_string_ = stop;
  size_t safe = held_back_.size();
  if (first != std::string::npos) {
    stopped_ = true;
    safe = first;
  } else if (!all) {
    // Hold back the longest suffix of the text that is a prefix of a stop string.
    for (const std::string& stop : stops_)
      for (size_t n = std::min(stop.size() - 1, held_back_.size()); n > 0; --n)
        if (held_back_.compare(held_back_.size() - n, n, stop, 0, n) == 0) {
          safe = std::min(safe, held_back_.size() - n);
          break;
        }
  }
  std::string out = held_back_.substr(0, safe);
  held_back_.erase(0, stopped_ ? std::string::npos : safe);
  return out;
}

}  // namespace makar
