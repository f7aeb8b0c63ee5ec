// Which parts a block has. A mixer (LFM2, Mamba) replaces attention, a recurrent layer attention and
// feed-forward; the sizes in their specs do not say so.
#pragma once
#include "nn/spec.h"

namespace makar {

inline bool has_attention(const BlockSpec& b) { return !b.mixer && !b.recurrent && !b.alignment; }
inline bool has_feed_forward(const BlockSpec& b) {
  return b.feed_forward.width > 0 && !b.recurrent && !b.alignment;
}

// The first block with attention; null if there is none. All attention of a stack has the same heads.
inline const BlockSpec* first_with_attention(const StackSpec& s) {
  const auto it = std::find_if(s.blocks.begin(), s.blocks.end(), has_attention);
  return it == s.blocks.end() ? nullptr : &*it;
}
inline const BlockSpec* first_with_feed_forward(const StackSpec& s) {
  const auto it = std::find_if(s.blocks.begin(), s.blocks.end(), has_feed_forward);
  return it == s.blocks.end() ? nullptr : &*it;
}

}  // namespace makar
