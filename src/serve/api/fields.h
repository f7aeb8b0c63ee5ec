// Fields of a request's JSON: typed and bounded. The place of an error is the field's name, as a client
// spells it.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"

namespace makar {

// The body of a request: an object; keys that are null count as absent.
Result<Json> read_body(const std::string& body);

// What stands under a key, or the fallback where there is none.
Result<std::string> text_field(const Json& object, const std::string& key, const std::string& fallback = "");
Result<bool> flag_field(const Json& object, const std::string& key, bool fallback = false);
Result<int64_t> whole_field(const Json& object, const std::string& key, int64_t low, int64_t high,
                            int64_t fallback);
Result<double> number_field(const Json& object, const std::string& key, double low, double high,
                            double fallback);
// A text, or a list of up to `most` of them.
Result<std::vector<std::string>> texts_field(const Json& object, const std::string& key, size_t most);
// An object, or null where there is none.
Result<Json> object_field(const Json& object, const std::string& key);

// "an object", "a string"...: what a value is, for messages.
std::string kind_of(const Json& value);

// JSON that is always valid UTF-8.
std::string dump(const Json& json);

}  // namespace makar
