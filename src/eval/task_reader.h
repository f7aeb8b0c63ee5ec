// Typed access to a map of a task file. Every error has file and line.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "data/record_reader.h"
#include "data/yaml.h"
#include "eval/field_template.h"
#include "text/regex.h"

namespace makar {

class TaskReader {
 public:
  static Result<TaskReader> open(const std::string& text, const std::string& place);

  // An error at the line of `key`, or of the map if it has no such key.
  Error error(const std::string& key, const std::string& what) const;
  // Fails if there is any other key, or a key twice.
  Status only(const std::vector<std::string>& keys) const;
  bool is_list(const std::string& key) const;

  Result<std::string> text(const std::string& key, const std::string& fallback) const;
  Result<int64_t> integer(const std::string& key, int64_t fallback, int64_t low, int64_t high) const;
  Result<double> number(const std::string& key, double fallback, double low, double high) const;
  Result<bool> flag(const std::string& key, bool fallback) const;
  // A value, or a list of values.
  Result<std::vector<std::string>> list(const std::string& key,
                                        const std::vector<std::string>& fallback) const;
  // A map of values or lists; a value or list alone has the key "".
  Result<std::vector<std::pair<std::string, std::vector<std::string>>>> lists(const std::string& key) const;
  // A list of names by position, or a map of names.
  Result<Columns> columns(const std::string& key) const;
  Result<std::optional<TaskReader>> map(const std::string& key) const;
  Result<std::vector<TaskReader>> maps(const std::string& key, size_t max = 100) const;
  // `field`: one word names a field, which every document must have.
  Result<FieldTemplate> field_template(const std::string& key, bool field = false) const;
  Result<Regex> regex(const std::string& key) const;
  Result<std::vector<Regex>> regexes(const std::string& key) const;
  Result<Json> json() const;

 private:
  TaskReader(YAML::Node node, std::string place) : node_(std::move(node)), place_(std::move(place)) {}
  YAML::Node find(const std::string& key) const;
  Result<std::string> scalar(const YAML::Node& node, const std::string& key) const;
  YAML::Node node_;  // a map
  std::string place_;
};

}  // namespace makar
