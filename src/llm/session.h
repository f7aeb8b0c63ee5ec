// Saved conversations. Files are untrusted: sizes are bounded, roles are checked, and only text is accepted.
// The text goes through the chat template, where it cannot spell control tokens.
#pragma once
#include <string>

#include "base/error.h"
#include "base/json.h"

namespace makar {

constexpr size_t kMaxSessionBytes = size_t{16} << 20;
constexpr size_t kMaxSessionMessages = 100000;

// The messages of a saved session: a list of {"role", "content"}; other fields are dropped.
Result<Json> read_session(const std::string& text, const std::string& place);
// {"messages"}; invalid UTF-8 is replaced.
std::string write_session(const Json& messages);

}  // namespace makar
