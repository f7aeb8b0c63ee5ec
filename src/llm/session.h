// Conversations in files. What is read is hostile until it is read: bounded, of known roles, text alone; its
// words go through the chat template, where they cannot spell control tokens.
#pragma once
#include <string>

#include "base/error.h"
#include "base/json.h"

namespace makar {

constexpr size_t kLargestSession = size_t{16} << 20;  // bytes
constexpr size_t kMostMessages = 100000;

// The messages of a saved session: a list of {"role", "content"}, whatever else was there left out.
Result<Json> read_session(const std::string& text, const std::string& place);
// {"messages"}; what is not UTF-8 is replaced.
std::string write_session(const Json& messages);

}  // namespace makar
