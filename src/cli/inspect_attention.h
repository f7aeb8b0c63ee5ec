// makar inspect --attention: the attention of one head as a heat map in the terminal.
#pragma once
#include <cstdint>
#include <string>

#include "base/error.h"

namespace makar {

struct AttentionView {
  std::string text;               // "": attention is not shown
  int64_t layer = -1, head = -1;  // -1: the head whose last token attends most to one other token
  int64_t threads = 0;
};

Status print_attention(const std::string& model, const AttentionView& view, bool json);

}  // namespace makar
