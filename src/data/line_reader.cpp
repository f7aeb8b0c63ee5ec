#include "data/line_reader.h"

namespace makar {

Result<bool> LineReader::next(Line& line) {
  line.text.clear();
  line.too_long = false;
  bool found = false;
  for (;;) {
    if (at_ == block_.size()) {
      block_.resize(size_t{64} << 10);
      MAKAR_TRY(const size_t n, stream_->read({block_.data(), block_.size()}));
      block_.resize(n);
      at_ = 0;
      if (n == 0) break;
    }
    found = true;
    const size_t end = block_.find('\n', at_);
    const size_t stop = end == std::string::npos ? block_.size() : end;
    if (line.text.size() + (stop - at_) > limit_) line.too_long = true, line.text.clear();
    if (!line.too_long) line.text.append(block_, at_, stop - at_);
    at_ = end == std::string::npos ? stop : stop + 1;
    if (end != std::string::npos) break;
  }
  if (!found) return false;
  line.number = ++number_;
  if (!line.text.empty() && line.text.back() == '\r') line.text.pop_back();
  return true;
}

}  // namespace makar
