// Ids to text as they are written. Text that might be the beginning of a stop string is held back until it is
// known.
#pragma once
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace makar {

class TextStream {
 public:
  TextStream(Tokenizer tokenizer, std::vector<std::string> stops, bool skip_special = true);

  // New text that is certain. After a stop string nothing more comes.
  std::string push(int64_t id);
  std::string finish();
  bool stopped() const { return stopped_; }
  const std::string& stop_string() const { return found_; }

 private:
  std::string release(bool all);
  StreamDecoder decoder_;
  std::vector<std::string> stops_;
  std::string held_, found_;
  bool stopped_ = false;
};

}  // namespace makar
