// Normalisers: the first stage of a tokenizer.json pipeline.
#pragma once
#include <memory>

#include "base/json.h"
#include "text/aligned_text.h"

namespace makar {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual Status apply(AlignedText& text) const = 0;
  // True when apply() certainly does not change this text.
  virtual bool known_unchanged(std::string_view text) const { return false; }

  // From the "normalizer" section; a null section gives a null pointer.
  static Result<std::unique_ptr<const Normalizer>> from_json(const Json& json);
};

}  // namespace makar
