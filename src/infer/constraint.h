// What restricts the tokens a request may write: a grammar, a schema, a list of choices.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"

namespace makar {

class Constraint {
 public:
  virtual ~Constraint() = default;
  // Bars what may not come next: its logit becomes -infinity. Ending ids are barred until the text may end.
  virtual Status mask(std::span<float> logits) = 0;
  virtual Status accept(int64_t token) = 0;
  virtual std::unique_ptr<Constraint> fork() const = 0;
};

}  // namespace makar
