// Decoders: tokens back into text.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"

namespace makar {

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Rewrites the list; its parts joined are the text. Parts may hold bytes that are not UTF-8 when `raw`.
  virtual void apply(std::vector<std::string>& tokens, bool raw) const = 0;
  // A lone ByteLevel decoder: each token is its own bytes, whatever stands around it.
  virtual bool is_byte_level() const { return false; }

  static Result<std::unique_ptr<const Decoder>> from_json(const Json& json);
};

}  // namespace makar
