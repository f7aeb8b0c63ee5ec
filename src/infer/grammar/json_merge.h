// Merges several JSON schemas that must all hold into one. Linear in the size of what is added: a client may
// send an allOf of tens of thousands of parts.
#pragma once
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/json.h"

namespace makar::grammar {

class SchemaMerger {
 public:
  explicit SchemaMerger(Json first) : merged_(std::move(first)) {}
  void add(const Json& schema);
  Json take() { return std::move(merged_); }
  // Keywords that cannot be merged: the first value is kept.
  const std::vector<std::string>& unmerged() const { return unmerged_; }

 private:
  void add_keyword(const std::string& key, const Json& value);
  void add_required(Json& merged, const Json& other);
  void add_properties(Json& merged, const Json& other);

  struct Property {
    size_t index;         // in merged_["properties"]
    bool joined = false;  // its schema is an allOf created by the merge
  };
  Json merged_;
  std::vector<std::string> unmerged_;
  std::unordered_map<std::string, Property> properties_;  // filled when a second `properties` is merged
  std::unordered_set<std::string> required_;              // filled when a second `required` is merged
  std::unordered_set<std::string> joined_;  // keywords whose schema is an allOf created by the merge
};

// True for keywords that only describe, such as titles.
bool is_annotation(const std::string& keyword);

}  // namespace makar::grammar
