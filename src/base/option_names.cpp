#include "base/option_names.h"

#include <algorithm>

namespace makar {
namespace {

constexpr std::string_view kProgramPrefix = "program.";

bool is_key(std::string_view text) {
  if (text.starts_with(kProgramPrefix)) text.remove_prefix(kProgramPrefix.size());
  return !text.empty() && text[0] >= 'a' && text[0] <= 'z' &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

// Replaces each key between backquotes by spell(key); other text stays as it is.
template <class Spell>
std::string replace_keys(std::string_view message, const Spell& spell) {
  std::string out;
  while (!message.empty()) {
    const size_t open = message.find('`');
    const size_t close = open == message.npos ? open : message.find('`', open + 1);
    if (close == message.npos) break;
    const std::string_view key = message.substr(open + 1, close - open - 1);
    out += message.substr(0, open);
    if (is_key(key)) {
      out += spell(std::string(key));
      message.remove_prefix(close + 1);
    } else {  // the second backquote may begin a key
      out += message.substr(open, close - open);
      message.remove_prefix(close);
    }
  }
  return out.append(message);
}

std::string as_flag(std::string key) {
  if (key.starts_with(kProgramPrefix)) key.erase(0, kProgramPrefix.size());
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

}  // namespace

std::string options_as_flags(std::string_view message) { return replace_keys(message, as_flag); }

std::string options_as_fields(std::string_view message, std::string_view owner) {
  return replace_keys(message, [&](const std::string& key) {
    return key.starts_with(kProgramPrefix) ? std::string(owner) + as_flag(key) : key;
  });
}

}  // namespace makar
