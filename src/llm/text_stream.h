// Converts ids to text as they are generated. Text that may be the start of a stop string is held back until
// that is decided.
#pragma once
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace makar {

class TextStream {
 public:
  // `context`: the ids that the stream continues.
  TextStream(Tokenizer tokenizer, std::vector<std::string> stops, bool skip_special = true,
             std::span<const int64_t> context = {});

  // Returns new text that cannot be part of a stop string. Returns nothing after a stop string.
  std::string push(int64_t id);
  std::string finish();
  bool stopped() const { return stopped_; }
  const std::string& stop_string() const { return stop_string_; }

 private:
  std::string release(bool all);
  StreamDecoder decoder_;
  std::vector<std::string> stops_;
  std::string held_back_, stop_string_;
  bool stopped_ = false;
};

}  // namespace makar
