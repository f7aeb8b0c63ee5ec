// JSON behind one header: parsing with limits and located errors.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

// Compiled once, in json.cpp: the serializer is large, and each file that writes JSON would instantiate it.
template <>
std::string nlohmann::ordered_json::dump(int indent, char indent_char, bool ensure_ascii,
                                         error_handler_t error_handler) const;

namespace makar {

using Json =
    nlohmann::ordered_json;  // keeps the order of keys, so that a file read and written again keeps its order

struct JsonLimits {
  size_t bytes = size_t{256} << 20;
  int depth = 64;
};

// Parses one JSON value. Errors carry `place` and the byte offset; a duplicate key is an error.
Result<Json> parse_json(std::string_view text, const std::string& place, const JsonLimits& limits = {});
Result<Json> read_json(const std::string& path, const JsonLimits& limits = {});
// The text of a value, on one line or with `indent` blanks per level. Bytes that are not valid UTF-8 are
// replaced.
std::string dump(const Json& value, int indent = -1);

}  // namespace makar
