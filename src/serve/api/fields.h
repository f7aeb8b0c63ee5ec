// Typed and bounded fields of a JSON request. The place of an error is the name of the field in the request.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"

namespace makar {

// Parses a request body: an object. Keys with null values are removed.
Result<Json> read_body(const std::string& body);

// The value of a key, or the fallback if it is absent.
Result<std::string> text_field(const Json& object, const std::string& key, const std::string& fallback = "");
Result<bool> flag_field(const Json& object, const std::string& key, bool fallback = false);
Result<int64_t> integer_field(const Json& object, const std::string& key, int64_t low, int64_t high,
                              int64_t fallback);
Result<double> number_field(const Json& object, const std::string& key, double low, double high,
                            double fallback);
// A string, or a list of up to `max` strings.
Result<std::vector<std::string>> texts_field(const Json& object, const std::string& key, size_t max);
// An object, or null if absent.
Result<Json> object_field(const Json& object, const std::string& key);

// The type of a value for error messages: "an object", "a string"...
std::string kind_of(const Json& value);

}  // namespace makar
