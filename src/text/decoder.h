// Decoders: turn tokens into text.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"

namespace makar {

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Rewrites the list; its elements, concatenated, are the text. With `raw`, elements may contain bytes that
  // are not UTF-8.
  virtual void apply(std::vector<std::string>& tokens, bool raw) const = 0;
  // Whether this is a single ByteLevel decoder: the bytes of a token do not depend on its neighbours.
  virtual bool is_byte_level() const { return false; }

  static Result<std::unique_ptr<const Decoder>> from_json(const Json& json);
};

}  // namespace makar
