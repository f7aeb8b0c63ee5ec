// Numeric options of a struct, declared once in a table: command-line flags, keys of JSON requests, bounds
// and help.
#pragma once
#include <algorithm>
#include <cmath>
#include <span>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/options.h"

namespace makar {

template <class T>
struct NumberOption {
  // JSON keys, the main one first; "top_k" is the flag --top-k. A name that begins with a dash is only a
  // flag.
  const char* names;
  std::variant<double T::*, int64_t T::*, uint64_t T::*> field;
  double low, high;  // inclusive
  const char* value;
  const char* help;
  const char* group;  // the heading in --help

  std::vector<std::string> keys() const {
    std::istringstream words(names);
    std::vector<std::string> out;
    for (std::string word; words >> word;)
      if (word[0] != '-') out.push_back(word);
    return out;
  }
  std::string flags() const {
    std::istringstream words(names);
    std::string out;
    for (std::string word; words >> word;) {
      std::replace(word.begin(), word.end(), '_', '-');
      out += (out.empty() ? "" : " ") + (word[0] == '-' ? word : "--" + word);
    }
    return out;
  }
};

// Declares one flag per option; `target` must outlive `options`. Check the bounds after parsing.
template <class T>
void add_number_options(Options& options, T& target, std::span<const NumberOption<T>> table) {
  for (const NumberOption<T>& option : table) {
    const std::string flags = option.flags();
    options.group(option.group);
    if (auto* real = std::get_if<double T::*>(&option.field))
      options.add(flags, &(target.*(*real)), option.help, option.value);
    else if (auto* whole = std::get_if<int64_t T::*>(&option.field))
      options.add(flags, &(target.*(*whole)), option.help, option.value);
    else if (auto* bits = std::get_if<uint64_t T::*>(&option.field))  // int64_t of the same bits
      options.add(flags, reinterpret_cast<int64_t*>(&(target.*(*bits))), option.help, option.value);
  }
}

// Reads the value of one request key. False: no option has that name.
template <class T>
Result<bool> read_number_option(T& target, std::span<const NumberOption<T>> table, const std::string& key,
                                const Json& value) {
  for (const NumberOption<T>& option : table)
    for (const std::string& name : option.keys()) {
      if (name != key) continue;
      if (!value.is_number()) return error_at(key, "expects a number, got {}", value.type_name());
      if (auto* field = std::get_if<double T::*>(&option.field)) {
        target.*(*field) = value.get<double>();
        return true;
      }
      // Whole numbers may be written 40 or 40.0.
      const double number = value.get<double>();
      if (!value.is_number_integer() && (std::floor(number) != number || std::fabs(number) > 0x1p53))
        return error_at(key, "expects a whole number, got {}", value.dump());
      const int64_t whole = value.is_number_integer() ? value.get<int64_t>() : static_cast<int64_t>(number);
      if (auto* field = std::get_if<int64_t T::*>(&option.field)) target.*(*field) = whole;
      if (auto* field = std::get_if<uint64_t T::*>(&option.field))
        target.*(*field) = static_cast<uint64_t>(whole);
      return true;
    }
  return false;
}

// Checks bounds; the error names the option and its range.
template <class T>
Status check_number_options(const T& target, std::span<const NumberOption<T>> table) {
  for (const NumberOption<T>& option : table) {
    const double value =
        std::visit([&](auto field) { return static_cast<double>(target.*field); }, option.field);
    if (value >= option.low && value <= option.high) continue;
    return error_at("`" + option.keys().front() + "`", "must be from {} to {}, got {}", option.low,
                    option.high, value);
  }
  return Done{};
}

}  // namespace makar
