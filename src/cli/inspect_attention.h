// makar inspect --attention: the attention of one head as a heat map in the terminal.
#pragma once
#include <cstdint>
#include <string>

#include "base/error.h"

namespace makar {

struct AttentionView {
  std::string text;  // "": attention is not shown
  // -1: any; of the heads left, the one in which the last token attends most to a token other than itself and
  // the first.
  int64_t layer = -1, head = -1;
  int64_t threads = 0;
};

Status print_attention(const std::string& model, const AttentionView& view, bool json);

}  // namespace makar
