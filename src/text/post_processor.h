// Post-processors: add special tokens around one or two sequences and trim offsets.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace makar {

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  // The number of tokens it adds around one sequence or two.
  virtual size_t added_count(bool pair) const = 0;
  // `parts`: one or two sequences at first; a template replaces them with any number of parts, special tokens
  // among them. The caller concatenates what the last post-processor leaves.
  // `texts`: the original texts, used to trim offsets.
  using Texts = std::array<std::string_view, 2>;
  virtual void apply(std::vector<Encoding>& parts, const Texts& texts, bool add_special) const = 0;

  // The text of a token, for trimming; `original` is the part of the input that the token covers.
  using TokenOf = std::function<std::string_view(uint32_t id, std::string_view original)>;
  static Result<std::unique_ptr<const PostProcessor>> from_json(const Json& json, const TokenOf& token_of);
};

// Appends `other` to `encoding`.
void append(Encoding& encoding, const Encoding& other);

}  // namespace makar
