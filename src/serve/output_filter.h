// The output filter of a server: an answer ends before its first toxic sentence.
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace makar {

struct OutputFilter {
  std::function<double(std::string_view text)> toxicity;  // 0 to 1; called from any thread
  double threshold = 0.5;                                 // a sentence of this toxicity or more is not sent
};

// One answer through the filter. Text is released sentence by sentence, each after it was scored together
// with the text before it, so streamed and whole answers end at the same place.
class FilteredText {
 public:
  explicit FilteredText(const OutputFilter* filter) : filter_(filter) {}
  // The text that may be sent now.
  std::string push(const std::string& text);
  std::string finish();
  bool rejected() const { return rejected_; }

 private:
  std::string release(size_t bytes);
  const OutputFilter* filter_;     // null: everything is released immediately
  std::string context_, pending_;  // the end of the released text; text not yet released
  size_t scanned_ = 0;             // bytes of pending_ without the end of a sentence
  bool rejected_ = false;
};

}  // namespace makar
