// Typed access to config.json and its nested objects. The type and the bounds of a value are checked where it
// is read; errors name the file, the field, what was expected and what was found. null counts as absent.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace makar {

class Config {
 public:
  // The names of a field in different families, e.g. {"hidden_size", "n_embd"}: the first one present is
  // read.
  struct Keys {
    Keys(const char* key) : list{key} {}
    Keys(std::string key) : list{std::move(key)} {}
    Keys(std::initializer_list<const char*> keys) : list(keys.begin(), keys.end()) {}
    std::vector<std::string> list;
  };

  Config() : json_(Json::object()) {}
  Config(Json object, std::string place);

  static Result<Config> read(const std::string& folder, const std::string& file = "config.json");
  static Result<Config> parse(std::string_view text, const std::string& place);

  bool has(const Keys& keys) const { return find(keys).value != nullptr; }
  std::vector<std::string> keys() const;
  const std::string& place() const { return place_; }  // "config.json", or "config.json: rope_scaling"
  const Json& json() const { return json_; }

  // Required fields: an absent field is an error.
  Result<int64_t> integer(const Keys& keys, int64_t lo, int64_t hi) const;
  Result<double> number(const Keys& keys, double lo, double hi) const;
  Result<bool> boolean(const Keys& keys) const;
  Result<std::string> text(const Keys& keys) const;
  Result<std::string> choice(const Keys& keys, const std::vector<std::string>& known) const;
  Result<Config> object(const Keys& keys) const;
  // Lists of at most `max` values, each within the bounds.
  Result<std::vector<int64_t>> integers(const Keys& keys, int64_t lo, int64_t hi, size_t max = 65536) const;
  Result<std::vector<double>> numbers(const Keys& keys, double lo, double hi, size_t max = 65536) const;
  Result<std::vector<std::string>> texts(const Keys& keys, size_t max = 65536) const;

  // The same with a fallback for absent fields; a wrong type is still an error.
  Result<int64_t> integer_or(const Keys& keys, int64_t fallback, int64_t lo, int64_t hi) const;
  Result<double> number_or(const Keys& keys, double fallback, double lo, double hi) const;
  Result<bool> boolean_or(const Keys& keys, bool fallback) const;
  Result<std::string> text_or(const Keys& keys, std::string fallback) const;
  Result<std::string> choice_or(const Keys& keys, std::string fallback,
                                const std::vector<std::string>& known) const;
  Result<Config> object_or_empty(const Keys& keys) const;

  // An error about a field, for rules that involve several: "config.json: field 'x' ...".
  Error field_error(const Keys& keys, const std::string& what) const;

 private:
  struct Found {
    const std::string* key;  // the name used, or the first alias
    const Json* value;       // nullptr when absent or null
  };
  Found find(const Keys& keys) const;
  Error missing(const Keys& keys) const;
  template <class T, class Read>
  Result<T> read_one(const Keys& keys, Read read) const;
  template <class T, class Read>
  Result<std::vector<T>> read_list(const Keys& keys, size_t max, const char* expected, Read read) const;

  Json json_;
  std::string place_;
};

}  // namespace makar
