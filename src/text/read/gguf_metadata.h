// The metadata section of a GGUF file (versions 2 and 3); every length is checked against the file.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"

namespace makar {

class GgufMetadata {
 public:
  using Value = std::variant<uint64_t, int64_t, double, bool, std::string_view, std::vector<std::string_view>,
                             std::vector<int64_t>, std::vector<double>>;

  // Strings point into `bytes`. Keys without `prefix` are skipped.
  static Result<GgufMetadata> parse(std::string_view bytes, std::string_view prefix = "");

  const Value* find(const std::string& key) const;
  std::string_view text(const std::string& key, std::string_view fallback = "") const;
  int64_t number(const std::string& key, int64_t fallback) const;
  bool flag(const std::string& key, bool fallback) const;
  // Null when absent or of another type.
  const std::vector<std::string_view>* texts(const std::string& key) const;
  const std::vector<int64_t>* numbers(const std::string& key) const;
  const std::vector<double>* reals(const std::string& key) const;

 private:
  std::map<std::string, Value> values_;
};

}  // namespace makar
