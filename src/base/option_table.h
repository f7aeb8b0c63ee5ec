// Options of a struct, declared once in a table: name, synonyms, range, help. Command-line flags, recipe
// keys, keys of JSON requests, checks and stored settings come from it.
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
struct TableOption {
  // JSON and recipe keys, the main one first; "top_k" is the flag --top-k. A name that begins with a dash is
  // only a flag.
  const char* names;
  std::variant<double T::*, int64_t T::*, uint64_t T::*, bool T::*, std::string T::*> field;
  double low, high;  // of numbers, inclusive
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
void declare_table(Options& options, T& target, std::span<const TableOption<T>> table) {
  for (const TableOption<T>& option : table) {
    options.group(option.group);
    std::visit(
        [&](auto field) {
          auto* variable = &(target.*field);
          if constexpr (std::is_same_v<decltype(variable),
                                       uint64_t*>)  // parsed as int64_t; the bits are the same
            options.add(option.flags(), reinterpret_cast<int64_t*>(variable), option.help, option.value);
          else
            options.add(option.flags(), variable, option.help, option.value);
        },
        option.field);
  }
}

// Reads the value of one key of a request into its field. False: no option has that key.
template <class T>
Result<bool> read_table(T& target, std::span<const TableOption<T>> table, const std::string& key,
                        const Json& value) {
  for (const TableOption<T>& option : table) {
    const auto keys = option.keys();
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) continue;
    if (auto* field = std::get_if<bool T::*>(&option.field)) {
      if (!value.is_boolean()) return error_at(key, "expects true or false, got {}", value.type_name());
      target.*(*field) = value.get<bool>();
      return true;
    }
    if (auto* field = std::get_if<std::string T::*>(&option.field)) {
      if (!value.is_string()) return error_at(key, "expects a string, got {}", value.type_name());
      target.*(*field) = value.get<std::string>();
      return true;
    }
    if (!value.is_number()) return error_at(key, "expects a number, got {}", value.type_name());
    if (auto* field = std::get_if<double T::*>(&option.field)) {
      target.*(*field) = value.get<double>();
      return true;
    }
    // Integers may be written 40 or 40.0.
    const double number = value.get<double>();
    if (!value.is_number_integer() && (std::floor(number) != number || std::fabs(number) > 0x1p53))
      return error_at(key, "expects an integer, got {}", value.dump());
    const int64_t integer = value.is_number_integer() ? value.get<int64_t>() : static_cast<int64_t>(number);
    if (auto* field = std::get_if<int64_t T::*>(&option.field)) target.*(*field) = integer;
    if (auto* field = std::get_if<uint64_t T::*>(&option.field))
      target.*(*field) = static_cast<uint64_t>(integer);
    return true;
  }
  return false;
}

// Checks the bounds of numbers; the error names the option and its range.
template <class T>
Status check_table(const T& target, std::span<const TableOption<T>> table) {
  for (const TableOption<T>& option : table) {
    const std::string invalid_value = std::visit(
        [&](auto field) -> std::string {
          const auto& value = target.*field;
          using Value = std::decay_t<decltype(value)>;
          if constexpr (std::is_arithmetic_v<Value> && !std::is_same_v<Value, bool>) {
            const auto number = static_cast<double>(value);
            if (!(number >= option.low && number <= option.high)) return fmt::format("{}", value);
          }
          return "";
        },
        option.field);
    if (!invalid_value.empty())
      return error_at("`" + option.keys().front() + "`", "must be from {} to {}, got {}", option.low,
                      option.high, invalid_value);
  }
  return Done{};
}

// The values by their main keys.
template <class T>
Json table_values(const T& target, std::span<const TableOption<T>> table) {
  Json out = Json::object();
  for (const TableOption<T>& option : table)
    std::visit([&](auto field) { out[option.keys().front()] = target.*field; }, option.field);
  return out;
}

}  // namespace makar
